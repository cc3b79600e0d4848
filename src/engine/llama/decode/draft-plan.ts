import { Drafter, MIN_DRAFT } from './drafter.ts';
import type { Slot } from './slots.ts';

/** Limits of the drafts of a step. */
export interface DraftBudget {
  /** Maximum tokens of a step with drafts. Slots have equal shares. */
  stepTokens: number;
  /** Whether drafts are only computed if every slot of the step has one, because they delay the others. */
  together: boolean;
}

/** A CPU needs about half as long for a token of a draft as for a step with one token. */
export const CPU_DRAFTS: DraftBudget = { stepTokens: 16, together: true };

/** Steps of a GPU take about as long with so many tokens as with one. */
export const GPU_DRAFTS: DraftBudget = { stepTokens: 64, together: false };

/**
 * Adds drafts to the slots of a batch, unless it has prompts, which would have to wait. Sets each slot's `drafted`.
 * Returns the number of tokens, so that the batch has at most `budget.stepTokens`.
 */
export function planDrafts(batch: readonly Slot[], { stepTokens, together }: DraftBudget): number {
  const max = Math.floor(stepTokens / batch.length) - 1;
  if (max < MIN_DRAFT - 1 || batch.some((slot) => slot.scheduled > 1)) return 0;
  for (const slot of batch) slot.drafted = draftOf(slot, max);
  if (together && batch.some((slot) => slot.drafted === 0)) for (const slot of batch) slot.drafted = 0;
  return batch.reduce((total, slot) => total + slot.drafted, 0);
}

/** A grammar would have to allow the tokens of a draft, so there is none. */
function draftOf({ choice, tokens, filled }: Slot, max: number): number {
  if (choice === null || choice.constrainedBy !== null) return 0;
  choice.drafter ??= new Drafter(tokens, choice.prompt.length);
  // The last token that the choice may sample needs no draft.
  return choice.drafter.draft(filled, Math.min(max, choice.remaining - 1));
}
