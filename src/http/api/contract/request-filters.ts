import { z } from 'zod';
import { picoOfUsd } from '../../../accounts/ledger/cost.ts';
import { NOTE_NAMES, NOTES_DESCRIPTION } from '../../../accounts/ledger/request-notes.ts';

/** Maximum of minimums in milliseconds: a day. */
export const MAX_MS = 86_400_000;
export const MAX_TOKENS = 1_000_000_000;

/** A whole number from 1. */
const count = (max: number) =>
  z.coerce.number<number>().int('expected a whole number').min(1).max(max).optional();

const milliseconds = count(MAX_MS);

/** Parameters that select requests by latency, tokens, cost and notes. */
export const requestFilters = {
  min_duration_ms: milliseconds.describe(
    'Only requests that took at least this long, in milliseconds. Running requests are left out.',
  ),
  min_ttft_ms: milliseconds.describe(
    'Only requests whose first token took at least this long, in milliseconds. Running requests are left out.',
  ),
  min_tokens: count(MAX_TOKENS).describe(
    'Only requests with at least this many prompt and completion tokens together. Running requests are left out.',
  ),
  min_cost_usd: z
    .string()
    .refine(
      (text) => picoOfUsd(text) !== null,
      'expected USD as a decimal string with at most 6 digits and 12 decimals, such as "0.01"',
    )
    .optional()
    .describe(
      'Only requests that cost at least this much, in USD: a decimal string. Running requests are left out.',
    ),
  note: z
    .enum(NOTE_NAMES)
    .optional()
    .describe(`Only requests with this in their \`notes\`. ${NOTES_DESCRIPTION}.`),
};
