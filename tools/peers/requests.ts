/** A request to send directly and through the service. */
export interface PeerCase {
  name: string;
  kind: 'chat' | 'text';
  body: Record<string, unknown>;
  /** Servers that support all its fields. Defaults to both. */
  servers?: readonly Server[];
  /** Fields that are different in direct requests. */
  direct?: Partial<Record<Server, Record<string, unknown>>>;
}

export type Server = 'vllm' | 'llama-server';

/** Sampling parameters that the service adds, because the servers have different defaults. */
const NEUTRAL: Readonly<Record<Server, Record<string, unknown>>> = {
  vllm: {
    temperature: 1,
    top_p: 1,
    top_k: -1,
    min_p: 0,
    repetition_penalty: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
  },
  'llama-server': {
    temperature: 1,
    top_p: 1,
    top_k: 0,
    min_p: 0,
    repeat_penalty: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    // As the service does, to separate accounts. A reused prefix may also change the last bits of probabilities.
    cache_prompt: false,
  },
};

/** Returns the body of the direct request. */
export function directBody({ kind, body, direct }: PeerCase, server: Server, model: string): object {
  const start = kind === 'chat' ? { messages: MESSAGES } : { prompt: PROMPT };
  return { model, ...start, ...NEUTRAL[server], ...body, ...direct?.[server] };
}

/** Returns the body of the request to the service. */
export function serviceBody({ kind, body }: PeerCase, model: string): object {
  const start = kind === 'chat' ? { messages: MESSAGES } : { prompt: PROMPT };
  return { model, ...start, ...body };
}

const MESSAGES = [
  { role: 'system', content: 'You answer briefly.' },
  { role: 'user', content: 'Name three colors — “é”, 東京, 🙂.' },
];
const PROMPT = 'The capital of France is';

const VLLM: readonly Server[] = ['vllm'];
const GREEDY = { temperature: 0, max_tokens: 12 };

/** Cases for both endpoints. */
const SHARED: readonly Omit<PeerCase, 'kind'>[] = [
  { name: 'greedy', body: GREEDY },
  { name: 'one token', body: { ...GREEDY, max_tokens: 1 } },
  { name: 'a seed', body: { temperature: 1, seed: 7, max_tokens: 16 } },
  {
    name: 'another seed, and every sampler',
    body: { temperature: 0.8, top_p: 0.9, top_k: 20, min_p: 0.02, seed: 3, max_tokens: 16 },
  },
  { name: 'a large seed', body: { temperature: 1, seed: 4_294_967_290, max_tokens: 8 } },
  { name: 'penalties', body: { ...GREEDY, presence_penalty: 1.5, frequency_penalty: 0.7, max_tokens: 24 } },
  {
    name: 'a repetition penalty',
    body: { ...GREEDY, repetition_penalty: 1.3, max_tokens: 24 },
    direct: { 'llama-server': { repeat_penalty: 1.3 } },
  },
  { name: 'a bias against tokens', body: { ...GREEDY, logit_bias: { 40: -100, 41: 5 } } },
  { name: 'a bias for one token', body: { ...GREEDY, max_tokens: 5, logit_bias: { 100: 100 } } },
  { name: 'a stop sequence', body: { ...GREEDY, stop: ['e'], max_tokens: 40 } },
  { name: 'stop sequences', body: { ...GREEDY, stop: ['a', ' ', 'the'], max_tokens: 40 } },
  { name: 'a stop sequence without a maximum', body: { temperature: 0, stop: ['s', '.', '\n'] } },
  { name: 'two choices', body: { temperature: 1, seed: 5, n: 2, max_tokens: 8 }, servers: VLLM },
  {
    name: 'json_object',
    body: { temperature: 0, response_format: { type: 'json_object' }, max_tokens: 10 },
    servers: VLLM,
  },
  {
    name: 'a schema',
    body: {
      temperature: 0,
      max_tokens: 30,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'n', schema: { enum: ['red', 'green', 'blue'] } },
      },
    },
    servers: VLLM,
  },
];

const CHAT: readonly Omit<PeerCase, 'kind'>[] = [
  { name: 'max_completion_tokens', body: { temperature: 0, max_completion_tokens: 9 } },
  {
    name: 'log probabilities',
    body: { ...GREEDY, logprobs: true },
    direct: { 'llama-server': { top_logprobs: 1 } },
  },
  {
    name: 'alternatives of greedy tokens',
    body: { ...GREEDY, logprobs: true, top_logprobs: 4 },
  },
  {
    name: 'alternatives of sampled tokens',
    body: { temperature: 1.5, seed: 11, max_tokens: 12, logprobs: true, top_logprobs: 3 },
    direct: { vllm: { top_logprobs: 20 } },
  },
  {
    name: 'a schema of a chat',
    body: {
      temperature: 0,
      max_tokens: 30,
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'n', schema: { enum: ['red', 'green', 'blue'] } },
      },
    },
    servers: ['llama-server'],
  },
];

const TEXT: readonly Omit<PeerCase, 'kind'>[] = [
  {
    name: 'log probabilities',
    body: { ...GREEDY, logprobs: 0 },
    direct: { 'llama-server': { logprobs: 1 } },
  },
  { name: 'alternatives of greedy tokens', body: { ...GREEDY, logprobs: 2 } },
  {
    name: 'alternatives of sampled tokens',
    body: { temperature: 1.5, seed: 11, max_tokens: 12, logprobs: 1 },
    direct: { vllm: { logprobs: 20 } },
  },
  { name: 'several prompts', body: { ...GREEDY, prompt: ['One', 'Two and three'] }, servers: VLLM },
  {
    name: 'several prompts and choices',
    body: { temperature: 1, seed: 2, max_tokens: 6, n: 2, prompt: ['One', 'Two'] },
    servers: VLLM,
  },
  { name: 'echo', body: { ...GREEDY, echo: true }, servers: VLLM },
];

/** All cases, non-streaming and streaming. */
export const PEER_CASES: readonly PeerCase[] = (
  [
    ...SHARED.map((each) => ({ ...each, kind: 'chat' as const })),
    ...CHAT.map((each) => ({ ...each, kind: 'chat' as const })),
    ...[...SHARED, ...TEXT].map((each) => ({ ...each, kind: 'text' as const })),
  ] satisfies PeerCase[]
).flatMap((each) => [
  each,
  { ...each, name: `${each.name}, streamed`, body: { ...each.body, stream: true } },
]);

/** A request that the server refuses. */
export interface RefusedCase {
  name: string;
  kind: 'chat' | 'text';
  body: Record<string, unknown>;
  code: string;
}

const LONG = 'word '.repeat(5000);

export const REFUSED_CASES: readonly RefusedCase[] = [
  {
    name: 'a chat that is too long',
    kind: 'chat',
    body: { messages: [{ role: 'user', content: LONG }] },
    code: 'context_length_exceeded',
  },
  {
    name: 'a prompt that is too long',
    kind: 'text',
    body: { prompt: LONG },
    code: 'context_length_exceeded',
  },
  {
    name: 'a streamed prompt that is too long',
    kind: 'text',
    body: { prompt: LONG, stream: true },
    code: 'context_length_exceeded',
  },
];
