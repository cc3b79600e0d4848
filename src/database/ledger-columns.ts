import { FINISH_REASONS } from '../core/generation.ts';

/**
 * The columns of the table `ledger`. From this table follow the row types, the SQL of all writes, the roll-ups, the JSON
 * and the CSV of a request, its schema in the management API, and the table in `docs/ledger.md`. It is plain data,
 * because the console loads it.
 */

/**
 * How a value is stored, and its JSON. `flag`: 0 or 1; a boolean. `time`: Unix milliseconds; ISO 8601. `price`:
 * pico-dollars per token; USD per million tokens. `pico`: pico-dollars, read as text because they can exceed 2^53; USD.
 */
type ColumnKind = 'text' | 'integer' | 'flag' | 'time' | 'price' | 'pico';

/**
 * When a value is written: when the row is opened; by checkpoints and again by the settlement; only by checkpoints; only
 * by the settlement.
 */
type Written = 'open' | 'running' | 'checkpoint' | 'settle';

interface LedgerColumn {
  readonly kind: ColumnKind;
  readonly written: Written;
  /** Whether the value can be null, in the table and in JSON. A row is opened with null in these columns. */
  readonly nullable?: true;
  /** The possible values of a text. */
  readonly values?: readonly string[];
  /** The value until it is written, if it is neither null nor 0. */
  readonly initial?: string;
  /** The field of the JSON. Default: the SQL name. Null: not part of it. */
  readonly json?: string | null;
  /** Describes the field to callers and operators. */
  readonly description?: string;
  /** Summed by the roll-ups: `usage_days` has a column of the same name. The description is that of the sum. */
  readonly sum?: { readonly description?: string };
}

const CACHE_MISS_TOKENS =
  'Prompt tokens that were computed again although an earlier request of the account had sent them. An estimate.';

const REASONING = 'Completion tokens that are reasoning. They cost as much as other completion tokens.';

/**
 * The columns by their property names in TypeScript, in the order of the JSON fields. Without `epoch`, the instance that
 * opened the row: each SQL statement that needs `epoch` names it explicitly.
 */
const LEDGER = {
  id: { kind: 'text', written: 'open', description: 'Request ID, a UUIDv7, as in `x-request-id`.' },
  clientRequestId: {
    kind: 'text',
    written: 'open',
    nullable: true,
    description: 'ID that the caller sent in `x-client-request-id`.',
  },
  accountId: { kind: 'text', written: 'open' },
  keyId: { kind: 'text', written: 'open' },
  client: {
    kind: 'text',
    written: 'open',
    nullable: true,
    description:
      'Program that sent the request, recognized by its `User-Agent`, such as `OpenAI Python`; `Unrecognized` if it is none of the known ones. Null: the request was recorded by an earlier version.',
  },
  endpoint: {
    kind: 'text',
    written: 'open',
    description: 'Protocol of the request, such as `chat`, `text` or `responses`.',
  },
  model: { kind: 'text', written: 'open' },
  streamed: { kind: 'flag', written: 'open' },
  state: {
    kind: 'text',
    written: 'settle',
    values: ['open', 'settled', 'interrupted'],
    initial: 'open',
    description: '`open`: running. `interrupted`: the instance that ran it was stopped or lost.',
  },
  plan: { kind: 'text', written: 'open', description: 'Plan that applied to the request.' },
  /** JSON of the limits that applied. */
  limits: { kind: 'text', written: 'open', json: null },
  /** What is unusual in `ModelInput`, as JSON. Null: the request was recorded by an earlier version. */
  modelInput: { kind: 'text', written: 'open', nullable: true, json: null },
  /** Reserved while the row is open. */
  reservedTokens: { kind: 'integer', written: 'open', json: null },
  reservedPico: { kind: 'pico', written: 'open', json: null },
  replica: { kind: 'text', written: 'running', nullable: true },
  attempts: {
    kind: 'integer',
    written: 'settle',
    description: 'Number of times that the request was sent to a replica, even if the replica refused it.',
  },
  continuedAfter: {
    kind: 'integer',
    written: 'settle',
    nullable: true,
    description:
      'Completion tokens after which another replica, or the restarted engine, continued the response. Null: it was not continued.',
  },
  startedAt: { kind: 'time', written: 'open' },
  slotAt: { kind: 'time', written: 'running', nullable: true, description: 'When the request got a slot.' },
  firstTokenAt: { kind: 'time', written: 'running', nullable: true },
  endedAt: {
    kind: 'time',
    written: 'settle',
    nullable: true,
    description: 'Null while it is running, or if unknown.',
  },
  promptTokens: { kind: 'integer', written: 'running', sum: {} },
  cachedTokens: {
    kind: 'integer',
    written: 'running',
    description: 'Prompt tokens that were read from the prefix cache.',
    sum: {},
  },
  cacheMiss: {
    kind: 'text',
    written: 'settle',
    nullable: true,
    description:
      'Why prompt tokens were computed again that an earlier request of the account had sent, such as `tools` or `user 3`. Null: none were, or unknown.',
  },
  cacheMissTokens: {
    kind: 'integer',
    written: 'settle',
    description: CACHE_MISS_TOKENS,
    sum: { description: CACHE_MISS_TOKENS },
  },
  cacheMissAfterMs: {
    kind: 'integer',
    written: 'settle',
    nullable: true,
    description: 'How long it started after that earlier request, in milliseconds.',
  },
  completionTokens: { kind: 'integer', written: 'running', sum: {} },
  reasoningTokens: {
    kind: 'integer',
    written: 'running',
    description: REASONING,
    sum: { description: REASONING },
  },
  usageSource: {
    kind: 'text',
    written: 'running',
    nullable: true,
    values: ['engine', 'estimated', 'clamped'],
    description:
      'Source of the token counts. `clamped`: the replica reported more than the request could use; the counts were reduced to that maximum.',
  },
  billed: {
    kind: 'flag',
    written: 'settle',
    description:
      'Whether the request is charged. False while it is running, if it was interrupted, or if it ended with an error other than `client_disconnected`, `invalid_api_key` or `model_not_allowed`.',
  },
  // The description of `price` itself.
  pricePrompt: {
    kind: 'price',
    written: 'open',
    json: 'price.prompt',
    description: 'Prices when the request started.',
  },
  priceCompletion: { kind: 'price', written: 'open', json: 'price.completion' },
  priceInputCacheRead: {
    kind: 'price',
    written: 'open',
    nullable: true,
    json: 'price.input_cache_read',
    description: 'Price of cached prompt tokens. Null: they cost as much as other prompt tokens.',
  },
  costPico: { kind: 'pico', written: 'settle', json: 'cost_usd' },
  finishReason: {
    kind: 'text',
    written: 'settle',
    nullable: true,
    values: FINISH_REASONS,
    description: 'Finish reason of the choice that finished last; null: not completed.',
  },
  errorCode: {
    kind: 'text',
    written: 'settle',
    nullable: true,
    description: 'Error code, or `client_disconnected` if the client disconnected.',
  },
  httpStatus: { kind: 'integer', written: 'settle', nullable: true },
  delivered: {
    kind: 'flag',
    written: 'settle',
    nullable: true,
    description: 'Whether the client was still connected at the end; null: unknown.',
  },
  checkpointAt: {
    kind: 'time',
    written: 'checkpoint',
    nullable: true,
    description: 'When its token counts were last saved before it ended.',
  },
} as const satisfies Readonly<Record<string, LedgerColumn>>;

export type Ledger = typeof LEDGER;

/** The values of each kind in TypeScript. */
interface Values {
  text: string;
  integer: number;
  flag: boolean;
  time: number;
  price: number;
  pico: bigint;
}

export type NullOf<C> = C extends { nullable: true } ? null : never;

type ValueOf<C extends LedgerColumn> =
  | (C extends { values: readonly (infer V)[] } ? V : Values[C['kind']])
  | NullOf<C>;

export type LedgerState = ValueOf<Ledger['state']>;

/** The values of the columns that are written at these times. */
export type RowOf<W extends Written> = {
  [P in keyof Ledger as Ledger[P]['written'] extends W ? P : never]: ValueOf<Ledger[P]>;
};

/** The SQL name of a property: `promptTokens` is `prompt_tokens`. */
export type SqlName<S> = S extends `${infer Head}${infer Tail}`
  ? `${Head extends Lowercase<Head> ? Head : `_${Lowercase<Head>}`}${SqlName<Tail>}`
  : '';

/** The SQL names of the columns that the roll-ups sum. */
export type SummedName = {
  [P in keyof Ledger]: Ledger[P] extends { sum: object } ? SqlName<P> : never;
}[keyof Ledger];

/** A row as SQLite and PostgreSQL return it: flags are 0 or 1, pico-dollars are text. */
export type LedgerRow = { [P in keyof Ledger as SqlName<P>]: StoredAs<Ledger[P]> };

type StoredAs<C extends LedgerColumn> =
  | { text: ValueOf<C>; integer: number; flag: number; time: number; price: number; pico: string }[C['kind']]
  | NullOf<C>;

/** A column with its names. */
export interface Column extends LedgerColumn {
  readonly property: string;
  /** In SQL. */
  readonly name: string;
}

export const COLUMNS: readonly Column[] = Object.entries<LedgerColumn>(LEDGER).map(([property, column]) => ({
  ...column,
  property,
  name: property.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
}));

const writtenAt = (...times: readonly Written[]) =>
  COLUMNS.filter(({ property, written }) => property === 'id' || times.includes(written));

// Each list begins with the ID.
/** Written when the row is opened, and never changed. */
export const OPENED = writtenAt('open');
/** Written by each checkpoint. */
export const CHECKPOINTED = writtenAt('running', 'checkpoint');
/** Written when the request ends. */
export const SETTLED = writtenAt('running', 'settle');
/** Written at once for a request that ended before its row was written. */
export const ENDED = [...OPENED, ...SETTLED.slice(1)];

/** The SQL names of the columns that the roll-ups sum, in the order of the table. */
// The same condition as that of the type.
export const SUMMED = COLUMNS.filter(({ sum }) => sum) as readonly (Column & { name: SummedName })[];

const filled = COLUMNS.filter(({ written, nullable }) => written !== 'open' && !nullable);

/** SQL for the columns of a new row that are written later and cannot be null. */
export const INITIAL = {
  names: filled.map(({ name }) => name).join(', '),
  values: filled.map(({ initial }) => (initial === undefined ? '0' : `'${initial}'`)).join(', '),
};
