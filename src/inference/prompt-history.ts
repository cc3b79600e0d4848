import { asChat, type ChatRequest, type GenerationRequest, type Usage } from '../core/generation.ts';
import { BYTES_PER_TOKEN } from '../routing/prefix-index.ts';
import { fingerprintOf, leadingSystemMessages, type Fingerprint } from './fingerprint.ts';

/** Why a prompt was computed again although the account had sent much of it before. */
export interface CacheMiss {
  /**
   * The first place that differs from the earlier prompt: `tools`, `system`, `options`, or a message by its role and
   * number, such as `user 3`. If they begin alike: `replica`, or `other_replica` if another one had the earlier prompt.
   */
  at: string;
  /** An estimate of the tokens that were computed again. */
  tokens: number;
  /** How long the request began after the earlier one, in milliseconds. */
  afterMs: number;
}

/** A request that was sent to a replica, with the usage that the replica reported. */
export interface SentRequest {
  accountId: string;
  request: GenerationRequest;
  replica: string;
  /** Whether all replicas of the model are engines of this program, which always report cached tokens. */
  isOwnEngine: boolean;
  usage: Readonly<Usage>;
  /** Times of `performance.now`. */
  startedAtMs: number;
  endedAtMs: number;
}

/** A prompt that is remembered. */
interface Earlier extends Pick<SentRequest, 'replica' | 'startedAtMs' | 'endedAtMs'> {
  prompt: Fingerprint;
  promptTokens: number;
}

/** Remembered prompts per account and model. A conversation counts once. */
const MAX_PROMPTS = 16;

/** Bytes of all remembered prompts. */
const MAX_BYTES = 16 * 1024 * 1024;

/** Bytes of a piece, and of the rest of a remembered prompt. */
const PIECE_BYTES = 16;
const PROMPT_BYTES = 700;

/**
 * Fewer lost tokens are not told. Providers cache no prompts below 1024 tokens, and only whole blocks of up to 128.
 */
const MIN_TOKENS = { own: 128, other: 1024 };

/** Share of a common prefix that must be cached for it to count as reused, because token counts of parts are estimated. */
const REUSED_SHARE = 0.75;

/** Share of the shorter one of two prompts that they must have in common, for one to count as a changed version of the other. */
const ALIKE_SHARE = 0.5;

/**
 * Tells why prompts were not found in the prefix cache, from fingerprints of the account's recent prompts. It compares
 * prompts of the same account and model only, keeps no text, and its memory is bounded.
 */
export class PromptHistory {
  readonly #maxBytes: number;
  /** By account and model, in the order of their last use; the prompts of each, latest first. */
  readonly #prompts = new Map<string, Earlier[]>();
  #bytes = 0;
  /** The names of the replicas that have reported cached tokens. Others may not report them, or have no cache. */
  readonly #reporting = new Set<string>();

  constructor(maxBytes = MAX_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of all remembered prompts, about. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Remembers the prompt of a request, and returns why part of it was computed again. Null: it was not, it was too short,
   * or the reason is unknown.
   */
  add(sent: SentRequest): CacheMiss | null {
    const { request, replica, usage, isOwnEngine } = sent;
    if (usage.cachedTokens > 0) this.#reporting.add(replica);
    const minTokens = isOwnEngine ? MIN_TOKENS.own : MIN_TOKENS.other;
    const chat = asChat(request);
    if (chat === null || chat.cacheScope === null || usage.promptTokens < minTokens) return null;
    const prompt = fingerprintOf(chat);
    const recent = this.#recent(sent);
    const isKnown = isOwnEngine || this.#reporting.has(replica);
    const miss = isKnown ? missOf(chat, prompt, sent, recent, minTokens) : null;
    this.#remember(sent, prompt, recent);
    return miss;
  }

  #recent({ accountId, request }: SentRequest): Earlier[] {
    return this.#prompts.get(keyOf(accountId, request.model)) ?? [];
  }

  #remember(sent: SentRequest, prompt: Fingerprint, recent: readonly Earlier[]): void {
    const { accountId, request, replica, startedAtMs, endedAtMs, usage } = sent;
    const { promptTokens } = usage;
    const earlier: Earlier = { prompt, promptTokens, replica, startedAtMs, endedAtMs };
    // The prompt of a conversation replaces those that it continues.
    const others = recent.filter((other) => commonPieces(prompt, other.prompt) < other.prompt.hashes.length);
    const kept = [earlier, ...others.slice(0, MAX_PROMPTS - 1)];
    const key = keyOf(accountId, request.model);
    this.#prompts.delete(key);
    this.#prompts.set(key, kept);
    this.#bytes += bytesOf(kept) - bytesOf(recent);
    for (const [oldest, prompts] of this.#prompts) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#prompts.delete(oldest);
      this.#bytes -= bytesOf(prompts);
    }
  }
}

function keyOf(accountId: string, model: string): string {
  return `${accountId}\n${model}`;
}

function bytesOf(prompts: readonly Earlier[]): number {
  return prompts.reduce((sum, { prompt }) => sum + PROMPT_BYTES + PIECE_BYTES * prompt.hashes.length, 0);
}

/** What a prompt has in common with an earlier one. */
interface Comparison {
  earlier: Earlier;
  /** Number of equal pieces at the start. */
  common: number;
  /** An estimate of the tokens of these pieces. */
  start: number;
  /** An estimate of the tokens of the equal pieces after them. 0 if the prompt is not a changed version of the earlier one. */
  rest: number;
}

/** Compares a prompt with the recent ones, and explains the largest loss. */
function missOf(
  request: ChatRequest,
  prompt: Fingerprint,
  { usage, replica, startedAtMs }: SentRequest,
  recent: readonly Earlier[],
  minTokens: number,
): CacheMiss | null {
  const { promptTokens, cachedTokens } = usage;
  if (promptTokens - cachedTokens < minTokens) return null;
  // A replica cannot have had a prompt that was still being computed.
  const finished = recent.filter(({ endedAtMs }) => endedAtMs <= startedAtMs);
  const comparisons = compare(prompt, promptTokens, finished);
  const closest = largest(comparisons, ({ common }) => common);
  if (closest === null) return null;
  const startLost = cachedTokens < REUSED_SHARE * closest.start ? closest.start - cachedTokens : 0;
  // Only what this start does not have was lost by changes.
  const reusable = Math.max(closest.start, cachedTokens);
  const lostIn = ({ start, rest }: Comparison): number => Math.min(rest, start + rest - reusable);
  const changed = largest(comparisons, lostIn) ?? closest;
  const isStartLost = startLost >= lostIn(changed);
  const { earlier, common, rest } = isStartLost ? closest : changed;
  // Templates that write the system message before the tools lose all tools when it changes.
  const isChanged = !isStartLost || common < Math.max(prompt.instructions, earlier.prompt.instructions);
  const lost = isStartLost ? startLost + (isChanged ? rest : 0) : lostIn(changed);
  const tokens = Math.floor(Math.min(lost, promptTokens - cachedTokens));
  if (tokens < minTokens) return null;
  const at = isChanged
    ? placeOf(request, prompt, earlier.prompt, common)
    : otherReason(prompt, earlier, replica);
  return { at, tokens, afterMs: Math.round(startedAtMs - earlier.startedAtMs) };
}

function compare(prompt: Fingerprint, promptTokens: number, recent: readonly Earlier[]): Comparison[] {
  const indices = new Map<number, number>();
  prompt.hashes.forEach((hash, index) => indices.set(hash, index));
  return recent.map((earlier) => {
    const common = commonPieces(prompt, earlier.prompt);
    const before = lengthOf(earlier.prompt, common);
    const after = commonLength(prompt, indices, earlier.prompt, common);
    const isAlike = before + after >= ALIKE_SHARE * Math.min(prompt.length, earlier.prompt.length);
    const isContinued = before === earlier.prompt.length;
    const start = isContinued
      ? Math.min(promptTokens, earlier.promptTokens)
      : Math.min(
          tokensOf(before, prompt, promptTokens),
          tokensOf(before, earlier.prompt, earlier.promptTokens),
        );
    return { earlier, common, start, rest: isAlike ? tokensOf(after, prompt, promptTokens) : 0 };
  });
}

/**
 * Estimates the tokens of a part of a prompt. The part is not longer than usual text, because the rest may have more tokens
 * for its length, such as numbers, Chinese and images.
 */
function tokensOf(bytes: number, { length }: Fingerprint, promptTokens: number): number {
  return length === 0 ? 0 : Math.min(bytes / BYTES_PER_TOKEN, (bytes / length) * promptTokens);
}

/** Returns the first one of the items with the largest value; null: there are none. */
function largest<Item>(items: readonly Item[], valueOf: (item: Item) => number): Item | null {
  return items.reduce<Item | null>(
    (best, item) => (best === null || valueOf(item) > valueOf(best) ? item : best),
    null,
  );
}

/** Returns how many pieces are equal at the start of two prompts. */
function commonPieces({ hashes }: Fingerprint, { hashes: others }: Fingerprint): number {
  const end = Math.min(hashes.length, others.length);
  let index = 0;
  while (index < end && hashes[index] === others[index]) index++;
  return index;
}

function lengthOf({ lengths }: Fingerprint, pieces: number): number {
  let sum = 0;
  for (let index = 0; index < pieces; index++) sum += lengths[index] ?? 0;
  return sum;
}

/**
 * Returns the length of the pieces from the index `from` on that an earlier prompt has there too, maybe at another place.
 * `indices`: the index of each piece of the prompt by its hash.
 */
function commonLength(
  { lengths }: Fingerprint,
  indices: ReadonlyMap<number, number>,
  { hashes }: Fingerprint,
  from: number,
): number {
  const found = new Set<number>();
  for (let index = from; index < hashes.length; index++) {
    const at = indices.get(hashes[index] ?? 0);
    if (at !== undefined && at >= from) found.add(at);
  }
  let sum = 0;
  for (const index of found) sum += lengths[index] ?? 0;
  return sum;
}

/** Returns why an equal start was computed again. */
function otherReason(prompt: Fingerprint, earlier: Earlier, replica: string): string {
  if (prompt.options !== earlier.prompt.options) return 'options';
  return replica === earlier.replica ? 'replica' : 'other_replica';
}

/** Names the place of the piece at which two prompts differ first. */
function placeOf(
  { messages }: ChatRequest,
  prompt: Fingerprint,
  earlier: Fingerprint,
  piece: number,
): string {
  if (piece < prompt.tools || piece < earlier.tools) return 'tools';
  if (piece < prompt.instructions || piece < earlier.instructions) return 'system';
  const index = leadingSystemMessages(messages) + piece - prompt.instructions;
  const role = messages[index]?.role ?? 'user';
  // Its position in the list of messages would depend on the API that the caller uses.
  return `${role} ${messages.slice(0, index + 1).filter((message) => message.role === role).length}`;
}
