import type { CacheScope } from './choice.ts';
import type { Slot } from './slots.ts';

/** What to do with a prompt that is first in the queue. */
export type Placement =
  /** Take `slot`, which is idle, and keep its first `keep` tokens; with `copyFrom`, those of that slot, copied first. */
  | { kind: 'seat'; slot: Slot; keep: number; copyFrom: Slot | null }
  /** Take no slot yet: `leader` is computing a prefix of this prompt and will hold `until` tokens of it. */
  | { kind: 'wait'; leader: Slot; until: number }
  /** No slot is idle. */
  | { kind: 'none' };

/**
 * Chooses the slot for a prompt so that as little as possible is computed. Only slots of the same scope count:
 * a cache shared between accounts would tell one about another.
 *
 * A match counts when it is over a tenth of the prompt. A prefix that another request is about to hold is waited
 * for rather than computed twice. Among idle slots the best match is used where it stands, unless that would
 * throw away more than it saves (somebody's longer conversation) while an older slot is there to copy into; with
 * no match, the least recently used slot is. `partial` tells whether this model's sequences can be cut: of one
 * that cannot, only a slot that continues exactly is of use.
 */
export function place(
  prompt: Uint32Array,
  scope: CacheScope,
  slots: readonly Slot[],
  partial: boolean,
): Placement {
  const enough = prompt.length / 10;
  let oldest: Slot | null = null;
  let idle: Match | null = null;
  let any: Match | null = null;
  let coming: Match | null = null;
  for (const slot of slots) {
    if (slot.choice === null && (oldest === null || slot.lastUsed < oldest.lastUsed)) oldest = slot;
    if (slot.scope !== scope) continue;
    const common = commonPrefix(slot.tokens, slot.filled, prompt);
    const held = usable(slot, Math.min(common, slot.computed, prompt.length - 1), partial);
    if (better(held, slot, any)) any = { slot, length: held };
    if (slot.choice === null && better(held, slot, idle)) idle = { slot, length: held };
    if (partial && slot.choice !== null && common > (coming?.length ?? 0)) coming = { slot, length: common };
  }
  const best = any?.length ?? 0;
  if (coming !== null && Math.min(coming.length, prompt.length - 1) > best + enough)
    return { kind: 'wait', leader: coming.slot, until: coming.length };
  if (oldest === null) return { kind: 'none' };
  if (any === null || best <= enough) {
    const own = idle?.slot === oldest ? idle.length : 0;
    return { kind: 'seat', slot: oldest, keep: own, copyFrom: null };
  }
  if (idle !== null && idle.length + enough >= best && !isLonger(idle, oldest))
    return { kind: 'seat', slot: idle.slot, keep: idle.length, copyFrom: null };
  if (!partial && any.slot !== idle?.slot) return { kind: 'seat', slot: oldest, keep: 0, copyFrom: null };
  return { kind: 'seat', slot: oldest, keep: best, copyFrom: any.slot };
}

/** How many tokens two texts begin with in common; of `held` the first `length` count. */
export function commonPrefix(held: Uint32Array, length: number, prompt: Uint32Array): number {
  const end = Math.min(length, prompt.length);
  let i = 0;
  while (i < end && held[i] === prompt[i]) i++;
  return i;
}

interface Match {
  slot: Slot;
  length: number;
}

/** Of equal matches the one with the least beyond it, which costs the least to throw away. */
function better(length: number, slot: Slot, than: Match | null): boolean {
  if (than === null) return length > 0;
  return length > than.length || (length === than.length && slot.computed < than.slot.computed);
}

function usable(slot: Slot, length: number, partial: boolean): number {
  return partial || length === slot.computed ? length : 0;
}

/** Whether a match stands in a conversation more than twice as long, while an older slot could be given up instead. */
function isLonger(match: Match, oldest: Slot): boolean {
  return match.slot !== oldest && match.slot.computed > 2 * match.length;
}
