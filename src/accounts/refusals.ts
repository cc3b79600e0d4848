import { sql, type Selectable } from 'kysely';
import type { Database } from '../database/database.ts';
import { loggable } from '../database/errors.ts';
import type { Schema } from '../database/schema.ts';
import type { ServiceError } from '../core/errors.ts';
import { Hourly } from './hourly.ts';
import type { Log } from '../support/log.ts';

const MINUTE_MS = 60_000;
const KEEP_MS = 7 * 86_400_000;
const FLUSH_MS = 10_000;

/** Maximum kinds of refusals per minute, in total and per account. All others are counted as `other`. */
const MAX_PER_MINUTE = 100;
const MAX_PER_ACCOUNT = 20;
/** Maximum rows in memory while the database is unavailable. Additional refusals are not counted. */
const MAX_WAITING = 2000;
/** Rows per statement, because a statement blocks the event loop on SQLite. */
const ROWS = 100;

const MAX_PARAM = 100;
const MAX_MESSAGE = 300;

const OTHER = { code: 'other', message: 'Other kinds of refused requests in the same minute.' };

/** The key of a refused request. */
export interface RefusedCaller {
  readonly id: string;
  readonly accountId: string;
}

type Row = Selectable<Schema['refusals']>;

/**
 * Counts refused requests by minute, account, key, error code and parameter. Memory and rows are bounded, no matter
 * what callers send. Rows are written in the background; a request never waits for the database.
 */
export class RefusalCounts implements AsyncDisposable {
  readonly #database: Pick<Database, 'background'>;
  readonly #log: Log;
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout;
  /** Deletes counts that are older than 7 days. */
  readonly oldCounts: Hourly;
  /** Rows not yet written, by primary key. */
  #waiting = new Map<string, Row>();
  /** Kinds of refusals in the current minute by account, including those already written. */
  readonly #kinds = new Map<string, Set<string>>();
  /** The number of kinds of all accounts. */
  #kindsOfMinute = 0;
  #minute = 0;
  #writing: Promise<void> | null = null;
  #failing = false;

  /** `now` returns Unix milliseconds. */
  constructor(database: Pick<Database, 'background'>, log: Log, now: () => number = Date.now) {
    this.#database = database;
    this.#log = log;
    this.#now = now;
    this.#timer = setInterval(() => void this.flush(), FLUSH_MS).unref();
    this.oldCounts = new Hourly(() => this.#deleteOld(), 'cannot delete old counts of refused requests', log);
  }

  /**
   * Counts one refused request. Takes about a microsecond and never throws. `caller` is null if the key was missing or
   * invalid.
   */
  record(caller: RefusedCaller | null, { code, param, message }: ServiceError): void {
    const now = this.#now();
    const minute = Math.floor(now / MINUTE_MS);
    if (minute !== this.#minute) this.#startMinute(minute);
    const account = caller?.accountId ?? '';
    const field = param === null ? '' : fieldOf(param);
    const kind = `${caller?.id ?? ''} ${code} ${field}`;
    if (this.#admit(account, kind)) {
      this.#add(`${minute} ${account} ${kind}`, now, () => ({
        minute,
        account_id: account,
        key_id: caller?.id ?? '',
        code,
        param: field,
        count: 0,
        last_at: now,
        message,
      })).message = message;
      return;
    }
    // If there are too many accounts, refusals of the remaining accounts share one row without an account.
    const owner = this.#admit(account, OTHER.code) ? account : '';
    this.#add(`${minute} ${owner} ${OTHER.code}`, now, () => ({
      minute,
      account_id: owner,
      key_id: '',
      param: '',
      count: 0,
      last_at: now,
      ...OTHER,
    }));
  }

  /** Writes the counts so far. If this fails, they are kept for the next call. Calls share a write that is running. */
  flush(): Promise<void> {
    this.#writing ??= this.#flush().finally(() => (this.#writing = null));
    return this.#writing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.oldCounts[Symbol.asyncDispose]();
    await this.#writing;
    await this.flush();
  }

  async #deleteOld(): Promise<void> {
    const before = Math.floor((this.#now() - KEEP_MS) / MINUTE_MS);
    await this.#database.background.deleteFrom('refusals').where('minute', '<', before).execute();
  }

  #startMinute(minute: number): void {
    this.#minute = minute;
    this.#kinds.clear();
    this.#kindsOfMinute = 0;
  }

  /** Whether this kind of refusal may have its own row in the current minute. */
  #admit(account: string, kind: string): boolean {
    let kinds = this.#kinds.get(account);
    if (kinds?.has(kind)) return true;
    const own = kind === OTHER.code ? MAX_PER_ACCOUNT + 1 : MAX_PER_ACCOUNT;
    if (this.#kindsOfMinute >= MAX_PER_MINUTE || (kinds?.size ?? 0) >= own) return false;
    if (kinds === undefined) this.#kinds.set(account, (kinds = new Set()));
    kinds.add(kind);
    this.#kindsOfMinute += 1;
    return true;
  }

  #add(key: string, now: number, create: () => Row): Row {
    let row = this.#waiting.get(key);
    if (row === undefined) {
      row = create();
      if (this.#waiting.size < MAX_WAITING) this.#waiting.set(key, row);
    }
    row.count += 1;
    row.last_at = now;
    return row;
  }

  async #flush(): Promise<void> {
    while (this.#waiting.size > 0) {
      const batch = [...this.#waiting].slice(0, ROWS);
      for (const [key] of batch) this.#waiting.delete(key);
      try {
        await this.#write(batch.map(([, row]) => row));
        this.#failing = false;
      } catch (error) {
        for (const [key, row] of batch) this.#putBack(key, row);
        if (!this.#failing) {
          this.#log.warn('cannot save counts of refused requests; will retry', { error: loggable(error) });
        }
        this.#failing = true;
        return;
      }
    }
  }

  async #write(rows: readonly Row[]): Promise<void> {
    const values = rows.map((row) => ({ ...row, message: withoutKeys(row.message) }));
    await this.#database.background
      .insertInto('refusals')
      .values(values)
      .onConflict((conflict) =>
        conflict.columns(['minute', 'account_id', 'key_id', 'code', 'param']).doUpdateSet({
          count: sql`refusals.count + excluded.count`,
          last_at: sql`excluded.last_at`,
          message: sql`excluded.message`,
        }),
      )
      .execute();
  }

  #putBack(key: string, row: Row): void {
    const newer = this.#waiting.get(key);
    if (newer !== undefined) newer.count += row.count;
    else if (this.#waiting.size < MAX_WAITING) this.#waiting.set(key, row);
  }
}

/** Removes indices from a path, so that `messages[3].content` and `messages[4].content` share one row. */
function fieldOf(param: string): string {
  const short = param.length > MAX_PARAM ? param.slice(0, MAX_PARAM) : param;
  const field = short.includes('[') ? short.replaceAll(/\[\d+\]/g, '[]') : short;
  return storable(field);
}

/** Removes API keys that callers sent in the wrong place, such as the path. */
function withoutKeys(message: string): string {
  return storable(message.replaceAll(/sk-[\w-]+/g, 'sk-…').slice(0, MAX_MESSAGE));
}

/** Replaces NUL and unpaired surrogates, which PostgreSQL rejects. */
function storable(text: string): string {
  return text.toWellFormed().replaceAll('\0', '�');
}

export interface Refusal {
  /** Null: the requests had no valid key. */
  accountId: string | null;
  keyId: string | null;
  code: string;
  param: string | null;
  count: number;
  /** Unix milliseconds. */
  lastAt: number;
  message: string;
}

export interface RefusalFilter {
  /** Null: all accounts, and requests without a valid key. */
  accountId: string | null;
  keyId: string | undefined;
  /** Unix milliseconds; rounded down to a minute. */
  fromMs: number;
  /** Unix milliseconds; rounded up to a minute. Not included; null: no end. */
  toMs: number | null;
}

export interface RefusalPage extends RefusalFilter {
  /** Counts each UTC hour separately. */
  byHour: boolean;
  limit: number;
}

/**
 * Returns counts of refused requests by account, key, code and parameter, most recent first. Reads only the index
 * `refusals_kinds`, and the messages of what it returns.
 */
export async function readRefusals({ reports }: Database, filter: RefusalPage): Promise<Refusal[]> {
  const { rows } = await sql<Omit<Row, 'minute' | 'count'> & { total: number }>`
    select kinds.account_id, kinds.key_id, kinds.code, kinds.param, total, kinds.last_at, message from (
      select account_id, key_id, code, param,
        cast(sum(count) as bigint) as total, max(last_at) as last_at, max(minute) as minute
      from refusals
      ${where(filter)}
      group by account_id, key_id, code, param ${filter.byHour ? sql`, minute / 60` : sql``}
      order by max(last_at) desc, account_id, key_id, code, param limit ${filter.limit}
    ) as kinds
    join refusals as latest on latest.minute = kinds.minute and latest.account_id = kinds.account_id
      and latest.key_id = kinds.key_id and latest.code = kinds.code and latest.param = kinds.param
    order by kinds.last_at desc, kinds.account_id, kinds.key_id, kinds.code, kinds.param`.execute(reports);
  return rows.map((row) => ({
    accountId: row.account_id === '' ? null : row.account_id,
    keyId: row.key_id === '' ? null : row.key_id,
    code: row.code,
    param: row.param === '' ? null : row.param,
    count: row.total,
    lastAt: row.last_at,
    message: row.message,
  }));
}

/** Returns the refused requests of each UTC hour that has some, oldest first. `hourMs`: its start, in Unix milliseconds. */
export async function countRefusals(
  { reports }: Database,
  filter: RefusalFilter,
): Promise<{ hourMs: number; count: number }[]> {
  const { rows } = await sql<{ hour: number; total: number }>`
    select minute / 60 as hour, cast(sum(count) as bigint) as total from refusals
    ${where(filter)} group by 1 order by 1`.execute(reports);
  return rows.map(({ hour, total }) => ({ hourMs: hour * 60 * MINUTE_MS, count: total }));
}

function where({ accountId, keyId, fromMs, toMs }: RefusalFilter) {
  return sql`where minute >= ${Math.floor(fromMs / MINUTE_MS)}
    ${toMs === null ? sql`` : sql`and minute < ${Math.ceil(toMs / MINUTE_MS)}`}
    ${accountId === null ? sql`` : sql`and account_id = ${accountId}`}
    ${keyId === undefined ? sql`` : sql`and key_id = ${keyId}`}`;
}
