import { sql, type RawBuilder } from 'kysely';
import { steadyNow } from '../accounts/clock.ts';
import { Hourly } from '../accounts/hourly.ts';
import type { Database } from '../database/database.ts';
import { SETUP_TOKEN, type Schema } from '../database/schema.ts';
import type { Log } from '../support/log.ts';
import { IDLE_MS } from './token.ts';

/** How long expired invitations are listed, so that owners can repeat them. */
const KEEP_INVITATIONS_MS = 30 * 86_400_000;
/** Rows per statement, because a statement blocks the event loop on SQLite. */
const BATCH = 500;

/**
 * Deletes expired sessions, links and counters of attempts every hour, because they contain addresses of users. `now`
 * returns Unix milliseconds.
 */
export function expiredSignIns(
  database: Pick<Database, 'background'>,
  log: Log,
  now: () => number = steadyNow,
): Hourly {
  const work = async (signal: AbortSignal) => {
    for (const table of TABLES) {
      while (!signal.aborted && (await deleteBatch(database, table, now())) === BATCH);
    }
  };
  return new Hourly(work, 'cannot delete expired sessions and links', log);
}

async function deleteBatch(
  { background }: Pick<Database, 'background'>,
  { name, key, expired }: ExpiringTable,
  now: number,
): Promise<number> {
  const [table, column] = [sql.table(name), sql.ref(key)];
  const { numAffectedRows = 0n } = await sql`
    delete from ${table} where ${column} in (
      select ${column} from ${table} where ${expired(now)} limit ${BATCH}
    )`.execute(background);
  return Number(numAffectedRows);
}

interface ExpiringTable {
  name: keyof Schema;
  key: string;
  /** Returns the condition of rows that have expired at a time in Unix milliseconds. */
  expired: (now: number) => RawBuilder<unknown>;
}

const TABLES: readonly ExpiringTable[] = [
  {
    name: 'sessions',
    key: 'id',
    expired: (now) => sql`expires_at <= ${now} or last_active_at <= ${now - IDLE_MS}`,
  },
  { name: 'verifications', key: 'id', expired: (now) => sql`expires_at <= ${now}` },
  { name: 'invitations', key: 'id', expired: (now) => sql`expires_at <= ${now - KEEP_INVITATIONS_MS}` },
  { name: 'attempts', key: 'name', expired: (now) => sql`until <= ${now}` },
  {
    name: 'settings',
    key: 'name',
    // The value begins with the expiry, which has 13 digits until the year 2286.
    expired: (now) => sql`name = ${SETUP_TOKEN} and value < ${String(now + 1)}`,
  },
];
