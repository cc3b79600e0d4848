import type { CallerKey, TortureRequest } from './records.ts';
import { FALSE_USAGE_MODEL } from './configuration.ts';

/** The usage that a replica reports, and how the service must record it. */
export interface FalseUsage {
  /** Returns the `usage` of a frame after this many completion tokens. */
  report(tokens: number, frame: 'token' | 'finish' | 'total'): unknown;
  /** The source of the counts of the row. */
  source: 'engine' | 'clamped' | 'estimated';
  /** The counts that the service lowers to the maximum that the request could use. */
  clamped?: readonly ('prompt' | 'completion')[];
  /** Whether the finish reason comes after the total usage. */
  finishLast?: true;
}

/** The correct token count of every prompt. */
const PROMPT_TOKENS = 9;

const TRILLION = 10 ** 12;

const usage = (prompt: unknown, completion: unknown, cached?: unknown) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  ...(cached === undefined ? {} : { prompt_tokens_details: { cached_tokens: cached } }),
});

export const FALSE_USAGES = {
  correct: { report: (tokens) => usage(PROMPT_TOKENS, tokens), source: 'engine' },
  'a trillion completion tokens': {
    report: () => usage(PROMPT_TOKENS, TRILLION),
    source: 'clamped',
    clamped: ['completion'],
  },
  'a quadrillion prompt tokens': {
    report: (tokens) => usage(1000 * TRILLION, tokens),
    source: 'clamped',
    clamped: ['prompt'],
  },
  'the largest integers': {
    report: () => usage(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    source: 'clamped',
    clamped: ['prompt', 'completion'],
  },
  'more cached than prompt tokens': {
    report: (tokens) => usage(PROMPT_TOKENS, tokens, TRILLION),
    source: 'engine',
  },
  'decreasing counts': {
    report: (tokens, frame) =>
      usage(PROMPT_TOKENS, frame === 'token' ? tokens * 1000 : frame === 'finish' ? 1 : tokens),
    source: 'engine',
    finishLast: true,
  },
  zeros: { report: () => usage(0, 0), source: 'estimated' },
  'negative numbers': { report: () => usage(-PROMPT_TOKENS, -TRILLION), source: 'estimated' },
  fractions: { report: (tokens) => usage(PROMPT_TOKENS + 0.5, tokens + 0.5), source: 'estimated' },
  'numbers too large to be exact': { report: () => usage(1e300, 1e300), source: 'estimated' },
  strings: { report: () => usage('nine', 'many'), source: 'estimated' },
  'not an object': { report: () => 'a lot', source: 'estimated' },
  'no usage': { report: () => undefined, source: 'estimated' },
} as const satisfies Record<string, FalseUsage>;

export type FalseUsageName = keyof typeof FALSE_USAGES;

export const FALSE_USAGE_NAMES = Object.keys(FALSE_USAGES) as FalseUsageName[]; // The keys of the constant.

/** Instructions for the replica, as JSON in the prompt. */
export interface ReplicaScript {
  usage: FalseUsageName;
  /** Tokens of the completion. */
  words: number;
  wordBytes: number;
  /** Delay of a response that is not streamed, in milliseconds. */
  delayMs: number;
  /** Whether the replica that limits its rate counts the request. */
  isCounted: boolean;
}

/** Bytes per token with which the service estimates the tokens of a complete response. */
const WORD_BYTES = 4;

/** Maximum tokens that a chat template adds per message and per request, as assumed by the service. */
const TEMPLATE_TOKENS = { message: 24, request: 2048 };

export function parseScript(prompt: string): ReplicaScript {
  // Written by `falseUsageRequest`, with text before it.
  return JSON.parse(prompt.slice(prompt.indexOf('{'))) as ReplicaScript;
}

export interface FalseUsageOptions {
  /** `X-Client-Request-Id`. */
  id: string;
  caller: CallerKey;
  instance: number;
  endpoint: TortureRequest['endpoint'];
  streamed: boolean;
  usage: FalseUsageName;
  words: number;
  /** Default: the bytes that the service estimates per token. */
  wordBytes?: number;
  /** Default: 0. */
  delayMs?: number;
  /** Default: false. */
  isCounted?: boolean;
  /** `max_tokens` minus the length of the completion. */
  spareTokens?: number;
}

/** Returns a request for the replica with false usage, and its expected row. */
export function falseUsageRequest(options: FalseUsageOptions): TortureRequest {
  const {
    id,
    caller,
    instance,
    endpoint,
    streamed,
    usage,
    words,
    wordBytes = WORD_BYTES,
    delayMs = 0,
    isCounted = false,
    spareTokens = 0,
  } = options;
  const { source, clamped = [] }: FalseUsage = FALSE_USAGES[usage];
  const script: ReplicaScript = { usage, words, wordBytes, delayMs, isCounted };
  const prompt = `Please ${JSON.stringify(script)}`;
  const isChat = endpoint === 'chat';
  const promptTokens = prompt.length + TEMPLATE_TOKENS.message + (isChat ? TEMPLATE_TOKENS.request : 0);
  const countedTokens = source === 'estimated' ? Math.ceil(prompt.length / 4) : PROMPT_TOKENS;
  return {
    clientRequestId: id,
    caller,
    instance,
    model: FALSE_USAGE_MODEL,
    endpoint,
    streamed,
    body: {
      model: FALSE_USAGE_MODEL,
      ...(isChat ? { messages: [{ role: 'user', content: prompt }] } : { prompt }),
      max_tokens: words + spareTokens,
      ...(streamed ? { stream: true, stream_options: { include_usage: true } } : {}),
    },
    promptTokens,
    completionTokens: words + spareTokens,
    directive: null,
    expectedUsage: {
      source,
      prompt: clamped.includes('prompt') ? promptTokens : countedTokens,
      completion: words + (clamped.includes('completion') ? spareTokens : 0),
    },
    disconnect: null,
  };
}
