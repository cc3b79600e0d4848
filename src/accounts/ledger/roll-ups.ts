import { SUMMED, type SummedName } from '../../database/ledger-columns.ts';

/** Dimensions by which usage can be grouped. `member` is the user who created the key, `tag` each tag of the key. */
export const USAGE_DIMENSIONS = [
  'hour',
  'day',
  'model',
  'key',
  'account',
  'client',
  'member',
  'tag',
] as const;
export type UsageDimension = (typeof USAGE_DIMENSIONS)[number];

/** `error_code` of a request whose client disconnected. */
export const CLIENT_DISCONNECTED = 'client_disconnected';

/** Outcomes of ended requests, with their condition in SQL. */
export const OUTCOMES = {
  completed: "state = 'settled' and error_code is null",
  error: `state = 'settled' and error_code <> '${CLIENT_DISCONNECTED}'`,
  client_disconnected: `state = 'settled' and error_code = '${CLIENT_DISCONNECTED}'`,
  interrupted: "state = 'interrupted'",
};
export type RequestOutcome = keyof typeof OUTCOMES;
// The keys of the object.
export const REQUEST_OUTCOMES = Object.keys(OUTCOMES) as RequestOutcome[];

/** A column of `usage_days` and `client_days`: what an ended row adds to it. */
export interface Sum {
  sql: string;
  /** Describes the sum to callers and operators. */
  description?: string | undefined;
}

/** The counts of usage, in the order of the JSON fields. */
export const COUNTS = {
  requests: { sql: '1' },
  errors: requestsWith('error', 'Requests that ended with an error.'),
  aborted: requestsWith('client_disconnected', 'Requests whose client disconnected.'),
  interrupted: requestsWith('interrupted'),
  // `SUMMED` has exactly these names.
  ...(Object.fromEntries(
    SUMMED.map(({ name, sum }): [string, Sum] => [name, { sql: name, description: sum?.description }]),
  ) as Record<SummedName, Sum>),
  billed_tokens: {
    sql: 'billed * (prompt_tokens + completion_tokens)',
    description: 'Prompt and completion tokens that are charged.',
  },
} satisfies Record<string, Sum>;
export type CountName = keyof typeof COUNTS;
// The keys of the object.
export const COUNT_NAMES = Object.keys(COUNTS) as CountName[];

/** All sums of usage: the counts, then the cost in pico-dollars. */
export const USAGE_SUMS: readonly { name: string; sql: string }[] = [
  ...Object.entries<Sum>(COUNTS).map(([name, { sql }]) => ({ name, sql })),
  { name: 'cost_pico', sql: 'cost_pico' },
];

function requestsWith(outcome: RequestOutcome, description?: string): Sum {
  return { sql: `case when ${OUTCOMES[outcome]} then 1 else 0 end`, description };
}
