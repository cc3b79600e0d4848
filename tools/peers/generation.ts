/** A token with its alternatives, sorted by probability. */
interface PeerToken {
  token: string;
  logprob: number;
  top: readonly (readonly [token: string, logprob: number])[];
}

interface PeerChoice {
  text: string;
  reasoning: string;
  finish: string | null;
  logprobs: PeerToken[];
}

/** A response of any server, endpoint and transport. */
export interface PeerGeneration {
  status: number;
  error: { code: unknown; param: unknown; message: string } | null;
  choices: PeerChoice[];
  usage: { prompt: number; completion: number } | null;
}

interface WireChoice {
  index: number;
  text?: string;
  message?: WireMessage;
  delta?: WireMessage;
  logprobs?: WireLogprobs | null;
  finish_reason: string | null;
}

interface WireMessage {
  content?: string | null;
  reasoning?: string | null;
  reasoning_content?: string | null;
}

interface WireEntry {
  token: string;
  logprob: number;
  top_logprobs?: WireEntry[];
}

interface WireLogprobs {
  content?: WireEntry[];
  tokens?: string[];
  token_logprobs?: number[];
  top_logprobs?: (Record<string, number> | null)[] | null;
}

interface WireResponse {
  choices?: WireChoice[];
  usage?: { prompt_tokens: number; completion_tokens: number } | null;
  error?: { code: unknown; param: unknown; message: string };
}

/** Sends a request and reads the response. Throws if it is neither a generation nor an error. */
export async function generate(url: string, body: object, key?: string): Promise<PeerGeneration> {
  const streamed = 'stream' in body && body.stream === true;
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    },
    body: JSON.stringify(streamed ? { ...body, stream_options: { include_usage: true } } : body),
  });
  const text = await response.text();
  const chunks = (streamed && response.ok ? dataOf(text) : [text]).map(
    (data) => JSON.parse(data) as WireResponse,
  );
  const generation: PeerGeneration = { status: response.status, error: null, choices: [], usage: null };
  for (const { choices = [], usage, error } of chunks) {
    if (error) generation.error = { code: error.code, param: error.param, message: error.message };
    if (usage) generation.usage = { prompt: usage.prompt_tokens, completion: usage.completion_tokens };
    for (const choice of choices) add(generation.choices, choice);
  }
  return generation;
}

function dataOf(stream: string): string[] {
  return stream
    .split('\n')
    .filter((line) => line.startsWith('data: ') && line !== 'data: [DONE]')
    .map((line) => line.slice(6));
}

function add(
  choices: PeerChoice[],
  { index, text, message, delta, logprobs, finish_reason }: WireChoice,
): void {
  const choice = (choices[index] ??= { text: '', reasoning: '', finish: null, logprobs: [] });
  const content = message ?? delta;
  choice.text += text ?? content?.content ?? '';
  choice.reasoning += content?.reasoning_content ?? content?.reasoning ?? '';
  choice.finish = finish_reason ?? choice.finish;
  if (logprobs) choice.logprobs.push(...tokensOf(logprobs));
}

function tokensOf({ content, tokens = [], token_logprobs, top_logprobs }: WireLogprobs): PeerToken[] {
  if (content) {
    return content.map(({ token, logprob, top_logprobs: top = [] }) => ({
      token,
      logprob,
      top: sorted(top.map((entry) => [entry.token, entry.logprob])),
    }));
  }
  return tokens.map((token, index) => ({
    token,
    logprob: token_logprobs?.[index] ?? Number.NaN,
    top: sorted(Object.entries(top_logprobs?.[index] ?? {})),
  }));
}

function sorted(top: [string, number][]): [string, number][] {
  return top.sort(([, a], [, b]) => b - a);
}
