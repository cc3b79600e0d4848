import type { Logprob, TokenLogprob } from '../core/generation.ts';

/** Represents -Infinity, which JSON does not have. OpenAI's API uses the same number. */
export const MIN_LOGPROB = -9999;

/** Reads `logprobs` in the chat or the text format. Returns null if there are none. */
export function readLogprobs(value: unknown): readonly TokenLogprob[] | null {
  if (typeof value !== 'object' || value === null) return null;
  const logprobs = value as WireLogprobs; // Each list is checked below.
  if (Array.isArray(logprobs.content)) return logprobs.content.map(readEntry);
  if (Array.isArray(logprobs.tokens)) return readLists(logprobs);
  return null;
}

interface WireEntry {
  token?: unknown;
  logprob?: unknown;
  bytes?: unknown;
  top_logprobs?: unknown;
}

interface WireLogprobs {
  content?: WireEntry[];
  tokens?: unknown[];
  token_logprobs?: unknown[] | null;
  top_logprobs?: unknown[] | null;
}

function readEntry(value: WireEntry): TokenLogprob {
  const top = Array.isArray(value.top_logprobs) ? (value.top_logprobs as WireEntry[]) : [];
  return { ...readToken(value), top: sortByLogprob(top.map(readToken)) };
}

function readToken(value: WireEntry): Logprob {
  return { token: readText(value.token), logprob: readNumber(value.logprob), bytes: readBytes(value.bytes) };
}

function readLists(lists: WireLogprobs): TokenLogprob[] {
  return (lists.tokens ?? []).map((token, index) => {
    const top = lists.top_logprobs?.[index];
    const pairs = typeof top === 'object' && top !== null ? Object.entries(top) : [];
    return {
      token: readText(token),
      logprob: readNumber(lists.token_logprobs?.[index]),
      bytes: null,
      top: sortByLogprob(
        pairs.map(([text, logprob]) => ({ token: text, logprob: readNumber(logprob), bytes: null })),
      ),
    };
  });
}

/** vLLM puts the sampled token first, regardless of its probability. */
function sortByLogprob(top: Logprob[]): Logprob[] {
  return top.sort((a, b) => b.logprob - a.logprob);
}

function readText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function readNumber(value: unknown): number {
  return typeof value === 'number' ? value : MIN_LOGPROB;
}

function readBytes(value: unknown): readonly number[] | null {
  return Array.isArray(value) && value.every((byte) => Number.isInteger(byte)) ? (value as number[]) : null;
}
