import type { Checkpoint } from '../native/context.ts';
import { MIN_TOKENS, type StoredMatch } from '../conversations/conversation-store.ts';
import type { CacheScope, JobChoice } from './job.ts';
import { commonPrefix } from '../conversations/common-prefix.ts';

/**
 * One sequence of the context. `tokens[0, computed)` are in the KV cache; `tokens[computed, filled)` are not computed
 * yet. Keeps its tokens when its choice ends, as a prefix for later requests.
 */
export class Slot {
  readonly id: number;
  readonly tokens: Uint32Array;
  computed = 0;
  filled = 0;
  /** Tokens of the latest prompt. What follows them was generated, and is often not repeated, such as the reasoning. */
  prompted = 0;
  /** Minimum tokens to which the sequence can be trimmed: earlier ones may not be complete after it was loaded. */
  minKeep = 0;
  scope: CacheScope | null = null;
  choice: JobChoice | null = null;
  /** Increases with each admission and release; 0 if there is nothing to reuse. */
  useNumber = 0;
  /** Time to sample the last token that a grammar constrained, in milliseconds. */
  samplingMs = 0;
  /** Steps that other slots with grammars decoded since this slot did. */
  stepsWaited = 0;
  /** Number of this slot's tokens in the current batch, without its draft. */
  scheduled = 0;
  /** Length of the draft that follows `tokens[filled - 1]` in `tokens` and in the current batch. */
  drafted = 0;
  /** The latest checkpoints of the sequence, in ascending order. Only of a model whose sequences cannot be trimmed. */
  checkpoints: Checkpoint[] = [];
  /** Numbers of tokens at which the prompt gets a checkpoint, in ascending order. */
  stops: number[] = [];
  /** Logit index in the current batch; -1 if the batch computes no logits for this slot. A draft has the next ones. */
  logitIndex = -1;

  constructor(id: number, slotTokens: number) {
    this.id = id;
    this.tokens = new Uint32Array(slotTokens);
  }

  get pending(): number {
    return this.filled - this.computed;
  }

  /** Number of pending tokens until the next checkpoint. */
  get untilStop(): number {
    return (this.stops[0] ?? this.filled) - this.computed;
  }

  /** The tokens in the KV cache. A view, which changes with the slot. */
  get computedTokens(): Uint32Array {
    return this.tokens.subarray(0, this.computed);
  }

  /** Assigns a choice whose first `keep` prompt tokens are in the KV cache. */
  assign(choice: JobChoice, keep: number, now: number): void {
    this.tokens.set(choice.prompt);
    this.computed = keep;
    if (keep === 0) this.minKeep = 0;
    this.dropCheckpoints(keep);
    this.stops = [];
    this.filled = choice.prompt.length;
    this.prompted = choice.prompt.length;
    this.scope = choice.job.scope;
    this.choice = choice;
    this.samplingMs = 0;
    this.useNumber = now;
  }

  /** Drops the checkpoints of more than `keep` tokens. */
  dropCheckpoints(keep = 0): void {
    for (const { tokens, native } of this.checkpoints) if (tokens > keep) native.dispose();
    this.checkpoints = this.checkpoints.filter(({ tokens }) => tokens <= keep);
  }

  append(token: number): void {
    this.tokens[this.filled++] = token;
  }

  /**
   * Removes the choice. The computed tokens remain as a prefix for later requests, unless the scope belongs to this
   * request only.
   */
  release(now: number): void {
    this.choice = null;
    this.filled = this.computed;
    this.useNumber = typeof this.scope === 'symbol' ? 0 : now;
  }

  /** Call this after clearing the sequence in the context. */
  clear(): void {
    this.computed = 0;
    this.filled = 0;
    this.prompted = 0;
    this.minKeep = 0;
    this.dropCheckpoints();
    this.scope = null;
    this.useNumber = 0;
  }
}

type Placement =
  /**
   * Use the idle `slot` and keep its first `keep` tokens. If `from` is not null, first replace its tokens with those of
   * another slot or of a stored conversation.
   */
  | { kind: 'assign'; slot: Slot; keep: number; from: Slot | StoredMatch | null }
  /** Wait until `leader` has computed `until` tokens of this prompt. */
  | { kind: 'wait'; leader: Slot; until: number }
  /** No slot is idle. */
  | { kind: 'none' };

/**
 * Tokens of a slot that are copied in the time to compute one. llama.cpp copies a slot as a whole. Measured with the
 * default model on a CPU: 0.08 s for a slot of 32,768 tokens, in which it computes about 25 tokens.
 */
const COPIED_PER_COMPUTED = 1024;

/**
 * Chooses the slot for a prompt to minimize computation. Only reuses tokens of the same scope, because a shared cache
 * would reveal prompts of other accounts.
 *
 * Ignores matches of at most a tenth of the prompt. Waits if another request is computing a match that is longer than
 * the best cached one by more than that. Otherwise uses the idle slot with the best match. If a busy slot has a better
 * match, or if the slot would lose its conversation, copies the match to the least recently used slot instead. Does not
 * copy, or wait for, a match that is computed faster than a slot is copied. Without a match, uses the least recently used
 * slot. Without `canTrim`, a slot matches only as a whole or up to a checkpoint of its own. `findStored` returns a stored
 * conversation that is longer than a match of `cachedTokens` by more than `margin`.
 */
export function choosePlacement(
  prompt: Uint32Array,
  scope: CacheScope,
  slots: readonly Slot[],
  canTrim: boolean,
  findStored: (cachedTokens: number, margin: number) => StoredMatch | null = () => null,
): Placement {
  const minLength = prompt.length / 10;
  const minCopied = (slots[0]?.tokens.length ?? 0) / COPIED_PER_COMPUTED;
  const oldest = leastRecentlyUsed(slots);
  let idleMatch: Match | null = null;
  let bestMatch: Match | null = null;
  let computing: Match | null = null;
  for (const slot of slots) {
    if (slot.scope !== scope) continue;
    const common = commonPrefix(slot.tokens, slot.filled, prompt);
    const length = usable(slot, Math.min(common, slot.computed, prompt.length - 1), canTrim);
    // A slot that generates is copied and trimmed.
    if ((canTrim || slot.choice === null) && better(length, slot, bestMatch)) bestMatch = { slot, length };
    if (slot.choice === null && better(length, slot, idleMatch)) idleMatch = { slot, length };
    if (canTrim && slot.choice !== null && common >= slot.minKeep && common > (computing?.length ?? 0))
      computing = { slot, length: common };
  }
  const best = bestMatch?.length ?? 0;
  const stored = findStored(best, Math.floor(minLength));
  if (
    computing !== null &&
    computing.length > minCopied &&
    Math.min(computing.length, prompt.length - 1) > (stored?.length ?? best) + minLength
  )
    return { kind: 'wait', leader: computing.slot, until: computing.length };
  if (oldest === null) return { kind: 'none' };
  if (stored !== null) return { kind: 'assign', slot: oldest, keep: stored.length, from: stored };
  const own = idleMatch?.slot === oldest ? idleMatch.length : 0;
  if (bestMatch === null || best <= minLength) return { kind: 'assign', slot: oldest, keep: own, from: null };
  if (
    idleMatch !== null &&
    idleMatch.length + minLength >= best &&
    !(idleMatch.slot !== oldest && losesTooMuch(idleMatch, canTrim))
  )
    return { kind: 'assign', slot: idleMatch.slot, keep: idleMatch.length, from: null };
  if (best <= minCopied || !canBeCopied(bestMatch, canTrim))
    return { kind: 'assign', slot: oldest, keep: own, from: null };
  return { kind: 'assign', slot: oldest, keep: best, from: bestMatch.slot };
}

/**
 * Returns an idle slot that was not used for long: of the older half, one beside a busy slot if there is one, because llama.cpp
 * computes each run of consecutive sequences apart. Four callers that are spread over eight slots take 1.9 times as long for a
 * step as four in a row. Null if no slot is idle.
 */
function leastRecentlyUsed(slots: readonly Slot[]): Slot | null {
  const idle = slots.filter(({ choice }) => choice === null).toSorted((a, b) => a.useNumber - b.useNumber);
  const isBusy = (id: number): boolean => (slots[id]?.choice ?? null) !== null;
  const older = idle.slice(0, Math.ceil(idle.length / 2));
  return older.find(({ id }) => isBusy(id - 1) || isBusy(id + 1)) ?? idle[0] ?? null;
}

interface Match {
  slot: Slot;
  length: number;
}

/** Whether another slot can get a copy of a match. A checkpoint is not copied. */
function canBeCopied({ slot, length }: Match, canTrim: boolean): boolean {
  return canTrim || length === slot.computed;
}

/** Whether it is better to copy a match, or to compute it again in another slot, than to cut its conversation. */
function losesTooMuch(match: Match, canTrim: boolean): boolean {
  const { slot, length } = match;
  return canBeCopied(match, canTrim) ? losesConversation(slot, length) : slot.computed > 2 * length;
}

/** Prefers longer matches, then slots that would lose fewer other tokens. */
function better(length: number, slot: Slot, than: Match | null): boolean {
  if (than === null) return length > 0;
  return length > than.length || (length === than.length && slot.computed < than.slot.computed);
}

/**
 * Returns how many of the first `length` tokens of a slot can be used: at least its `minKeep` or none and, without
 * `canTrim`, all of its tokens, those of a checkpoint, or none.
 */
export function usable(slot: Slot, length: number, canTrim: boolean): number {
  if (length >= (canTrim ? slot.minKeep : slot.computed)) return length;
  return canTrim ? 0 : (slot.checkpoints.findLast(({ tokens }) => tokens <= length)?.tokens ?? 0);
}

/**
 * Whether a slot of which only the first `keep` tokens stay loses a conversation, because another one begins with them:
 * most of its tokens, or many that its latest prompt had. The next prompt of the same conversation has nearly all of these.
 */
export function losesConversation({ computed, prompted }: Slot, keep: number): boolean {
  return computed > 2 * keep || Math.min(prompted, computed) - keep >= MIN_TOKENS;
}
