import type { ColumnType } from 'kysely';
import type { FinishReason, UsageSource } from '../generation.ts';

/**
 * The columns of the table `ledger`, by their property names in TypeScript. The row types, the SQL statements and the
 * conversion of values are derived from these definitions. To add a column, add it here, write a migration and describe
 * it in `docs/ledger.md`.
 */

/** How a value is stored. `flag`: as 0 or 1. `pico`: pico-dollars, read as text because they can exceed 2^53. */
type ColumnKind = 'text' | 'integer' | 'flag' | 'pico';

type KindOf<T> = [NonNullable<T>] extends [string]
  ? 'text'
  : [NonNullable<T>] extends [boolean]
    ? 'flag'
    : [NonNullable<T>] extends [bigint]
      ? 'pico'
      : 'integer';

export interface LedgerColumn {
  readonly kind: ColumnKind;
  /**
   * SQL of the value in a new row. Null for a column that starts as SQL null, or whose value is set when the row is
   * opened.
   */
  readonly initial: string | null;
}

/** A column whose values are `T` in TypeScript. */
interface ColumnOf<T> extends LedgerColumn {
  readonly kind: KindOf<T>;
  /** Never set. It only carries the type, so that `ValueOf` can infer it. */
  readonly value?: T;
}

export type LedgerColumns = Readonly<Record<string, LedgerColumn>>;

function column<T>(kind: KindOf<T>, initial: string | null = null): ColumnOf<T> {
  return { kind, initial };
}

export type LedgerState = 'open' | 'settled' | 'interrupted';

/** Written when the row is opened, and never changed. */
export const OPENED = {
  /** The request ID (`x-request-id`), a UUIDv7 as text. IDs are ordered by the time at which the requests arrived. */
  id: column<string>('text'),
  /** The client request ID, 1 to 512 printable ASCII characters; null if the client sent none. */
  clientRequestId: column<string | null>('text'),
  accountId: column<string>('text'),
  keyId: column<string>('text'),
  endpoint: column<string>('text'),
  model: column<string>('text'),
  streamed: column<boolean>('flag'),
  startedAt: column<number>('integer'),
  /** Name of the plan whose limits applied. */
  plan: column<string>('text'),
  /** JSON of the limits that applied. */
  limits: column<string>('text'),
  /** Tokens reserved while the row is open. */
  reservedTokens: column<number>('integer'),
  /** Pico-dollars reserved while the row is open. */
  reservedPico: column<bigint>('pico'),
  /** Pico-dollars per token, at the time of opening. */
  pricePrompt: column<number>('integer'),
  priceCompletion: column<number>('integer'),
} as const satisfies LedgerColumns;

/** Written by each checkpoint and again by the settlement. */
const COUNTED = {
  promptTokens: column<number>('integer', '0'),
  cachedTokens: column<number>('integer', '0'),
  completionTokens: column<number>('integer', '0'),
  /** Part of `completionTokens`. */
  reasoningTokens: column<number>('integer', '0'),
  usageSource: column<UsageSource | null>('text'),
  replica: column<string | null>('text'),
  /** When the engine gave the request a slot. */
  slotAt: column<number | null>('integer'),
  firstTokenAt: column<number | null>('integer'),
} as const satisfies LedgerColumns;

export const CHECKPOINTED = {
  ...COUNTED,
  /** When the counts were last written before the request ended. */
  checkpointAt: column<number | null>('integer'),
} as const satisfies LedgerColumns;

/** Written when the request ends. */
export const SETTLED = {
  state: column<LedgerState>('text', "'open'"),
  ...COUNTED,
  /** Null while the request is running, or if the instance that ran it died. */
  endedAt: column<number | null>('integer'),
  /** Number of replicas that the request was sent to, including those that refused it. */
  attempts: column<number>('integer', '0'),
  /**
   * Completion tokens after which another replica last continued the response, because a replica had failed; null: the
   * response was not continued.
   */
  continuedAfter: column<number | null>('integer'),
  /**
   * Whether the tokens count against limits and are charged. False while the request is running, and if it failed
   * because of the service.
   */
  billed: column<boolean>('flag', '0'),
  costPico: column<bigint>('pico', '0'),
  finishReason: column<FinishReason | null>('text'),
  /** Code of the error that ended the request, or `client_disconnected` if the client disconnected. */
  errorCode: column<string | null>('text'),
  httpStatus: column<number | null>('integer'),
  /** Whether the response reached the client, as far as the service knows; null if unknown. */
  delivered: column<boolean | null>('flag'),
} as const satisfies LedgerColumns;

/**
 * All columns except `epoch`, the instance that opened the row. Each SQL statement that needs `epoch` names it
 * explicitly.
 */
export const LEDGER = { ...OPENED, ...CHECKPOINTED, ...SETTLED } as const satisfies LedgerColumns;

type ValueOf<C> = C extends ColumnOf<infer T> ? T : never;

/** The TypeScript type of a row with these columns. */
export type RowOf<C extends LedgerColumns> = { [K in keyof C]: ValueOf<C[K]> };

/** The SQL name of a property: `promptTokens` is `prompt_tokens`. */
export type SqlName<S> = S extends `${infer Head}${infer Tail}`
  ? `${Head extends Lowercase<Head> ? Head : `_${Lowercase<Head>}`}${SqlName<Tail>}`
  : '';

/** Returns the SQL name of a property. */
export function sqlName<S extends string>(property: S): SqlName<S> {
  // TypeScript cannot infer this type: `SqlName` performs the same conversion on types.
  return property.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) as SqlName<S>;
}

/** A pico amount is written as a bigint and read through a cast to text. */
type StoredAs<T> = [NonNullable<T>] extends [bigint]
  ? ColumnType<never, bigint, bigint>
  : [NonNullable<T>] extends [boolean]
    ? number | (null extends T ? null : never)
    : T;

/** The table as Kysely sees it. */
export type LedgerTable = { epoch: ColumnType<number, number, never> } & {
  [K in keyof typeof LEDGER as SqlName<K>]: StoredAs<ValueOf<(typeof LEDGER)[K]>>;
};
