import { randomUUIDv7 } from 'node:crypto';
import { sql } from 'kysely';
import { configSchema, type ConfigFile } from '../../../src/config/schema.ts';
import type { Database } from '../../../src/database/database.ts';
import type { OpenedRow, RunningCounts, Settlement } from '../../../src/accounts/ledger/ledger.ts';
import { openLedger, type LedgerOptions } from '../../../src/accounts/ledger/open-ledger.ts';
import type { Usage } from '../../../src/core/generation.ts';
import { SILENT } from '../../../src/support/log.ts';

export const SETTINGS: ConfigFile['ledger'] = configSchema.parse({}).ledger;

/** Opens a ledger with default settings and no listeners, except those given. */
export function open(
  database: Database,
  settings: Partial<ConfigFile['ledger']> = {},
  options: Partial<LedgerOptions> = {},
) {
  return openLedger({
    database,
    settings: { ...SETTINGS, ...settings },
    log: SILENT,
    onFenced: () => {},
    onReaped: () => {},
    ...options,
  });
}

/** Returns the values of a request that was admitted now. */
export function newRow(with_: Partial<OpenedRow> = {}): OpenedRow {
  return {
    id: nextId(),
    clientRequestId: null,
    accountId: 'acct_1',
    keyId: 'key_1',
    endpoint: 'chat',
    model: 'test/scripted',
    streamed: true,
    startedAt: Date.now(),
    plan: 'standard',
    limits: '[]',
    reservedTokens: 100,
    reservedPico: 1000n,
    pricePrompt: 150_000,
    priceCompletion: 600_000,
    priceInputCacheRead: null,
    ...with_,
  };
}

let lastId = '';

/** Returns an ID that is after the last one, also within a millisecond. */
function nextId(): string {
  let id: string;
  do id = randomUUIDv7();
  while (id <= lastId);
  lastId = id;
  return id;
}

/** Returns the counts of a running request. Half of the completion is reasoning. */
export function counts(
  promptTokens = 0,
  completionTokens = 0,
): Omit<RunningCounts, 'usage'> & { usage: Usage } {
  return {
    usage: {
      promptTokens,
      completionTokens,
      cachedTokens: 0,
      reasoningTokens: Math.floor(completionTokens / 2),
    },
    usageSource: 'engine',
    replica: 'a',
    slotAt: null,
    firstTokenAt: null,
  };
}

export function settlement(with_: Partial<Settlement> = {}): Settlement {
  return {
    ...counts(10, 5),
    endedAt: Date.now(),
    attempts: 1,
    cacheMissTokens: 3,
    continuedAfter: null,
    finishReason: 'stop',
    errorCode: null,
    httpStatus: 200,
    delivered: true,
    billed: true,
    ...with_,
  };
}

/** Reads a row from the database. */
export async function readRow(database: Database, id: string) {
  return await database.kysely
    .selectFrom('ledger')
    .selectAll()
    .select(sql<string>`cast(cost_pico as text)`.as('cost'))
    .where('id', '=', id)
    .executeTakeFirst();
}

/** Reads `usage_days`, sorted by its key. */
export async function readUsageDays(database: Database) {
  const rows = await sumsOf(database, 'usage_days').execute();
  // Rows of SQLite have no prototype.
  return rows.map((one) => ({ ...one }));
}

/** Reads `client_days`, sorted by its key. */
export async function readClientDays(database: Database) {
  const rows = await sumsOf(database, 'client_days')
    .select(sql<string>`client`.as('client'))
    .orderBy('client')
    .execute();
  return rows.map((one) => ({ ...one }));
}

function sumsOf(database: Database, table: 'usage_days' | 'client_days') {
  return database.kysely
    .selectFrom(table)
    .select(['account_id', 'day', 'model', 'key_id', 'requests', 'errors', 'aborted', 'interrupted'])
    .select(['prompt_tokens', 'cached_tokens', 'completion_tokens', 'reasoning_tokens', 'billed_tokens'])
    .select('cache_miss_tokens')
    .select(sql<string>`cast(cost_pico as text)`.as('cost'))
    .orderBy('account_id')
    .orderBy('day')
    .orderBy('model')
    .orderBy('key_id');
}

/** Counts the rows by state. */
export async function countByState(database: Database): Promise<Record<string, number>> {
  const rows = await database.kysely
    .selectFrom('ledger')
    .select(['state', sql<number>`count(*)`.as('rows')])
    .groupBy('state')
    .execute();
  return Object.fromEntries(rows.map((one) => [one.state, one.rows]));
}

/** Expires the leases of all live instances. */
export async function endLeases(database: Database): Promise<void> {
  await database.kysely.updateTable('instances').set({ lease_until: 0 }).where('live', '=', 1).execute();
}
