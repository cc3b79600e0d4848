import type { LimitName } from './limits.ts';

/** A limit that a request was held against. */
export interface HeldLimit {
  scope: 'account' | 'key';
  /** Null: all models. */
  model: string | null;
  limit: LimitName;
  /** What it allows, and what it left after this request: requests, tokens, or USD as a decimal string. */
  bound: number | string;
  left: number | string;
}

type HeldTuple = [
  scope: HeldLimit['scope'],
  model: string | null,
  limit: LimitName,
  bound: number | string,
  left: number | string,
];

/** One limit as a row of the ledger keeps it: JSON without names, since every row carries all of them. */
export function writeHeldLimit({ scope, model, limit, bound, left }: HeldLimit): string {
  const written = (amount: number | string) => (typeof amount === 'number' ? amount : `"${amount}"`);
  // Model ids hold nothing that JSON writes otherwise.
  return `["${scope}",${model === null ? null : `"${model}"`},"${limit}",${written(bound)},${written(left)}]`;
}

/** The limits of a row of the ledger. */
export function readHeldLimits(text: string): HeldLimit[] {
  // Written by the function above, and changed by nobody since.
  const tuples = JSON.parse(text) as HeldTuple[];
  return tuples.map(([scope, model, limit, bound, left]) => ({ scope, model, limit, bound, left }));
}
