/**
 * Measures the cost of opening and settling a request, and the time of queries over millions of rows, on a temporary
 * database.
 *
 *   npm run bench:ledger -- --rows 10000000 --database postgres
 */
import { parseArgs } from 'node:util';
import { DAY_MS, dayOf } from '../src/accounts/ledger/days.ts';
import { readRequests, type RequestFilter } from '../src/accounts/ledger/requests.ts';
import type { UsageDimension } from '../src/accounts/ledger/roll-ups.ts';
import { readUsagePage } from '../src/accounts/ledger/usage.ts';
import { firstIdAt } from '../src/database/partitions.ts';
import { testDatabases, type TestDatabase } from '../test/support/servers.ts';
import { DAYS, fill, LARGE, MODELS, RARE } from './ledger/fill.ts';
import { writeCost } from './ledger/write-cost.ts';
import { median } from './statistics.ts';

const { values: options } = parseArgs({
  options: {
    /** Requests that are written with 64 in flight. */
    requests: { type: 'string', default: '20000' },
    rows: { type: 'string', default: '10000000' },
    database: { type: 'string', default: 'sqlite' },
    rounds: { type: 'string', default: '15' },
  },
});
const rows = Number(options.rows);
const rounds = Number(options.rounds);
const name = options.database === 'postgres' ? 'PostgreSQL' : 'SQLite';
const databases = testDatabases().find((kind) => kind.name === name);
if (databases === undefined) throw new Error(`${name} is not available.`);

{
  await using database = await databases.open({ threads: true });
  console.log(`${name}: CPU of this process to open and settle a request, median waits`);
  // The first is a warm-up.
  for (const [index, [inFlight, share]] of (
    [
      [16, 0.1],
      [1, 0.05],
      [16, 0.5],
      [64, 1],
    ] as const
  ).entries()) {
    const requests = Math.ceil(Number(options.requests) * share);
    const cost = await writeCost(database, inFlight, requests);
    const waits = `open ${cost.openMs.toFixed(2)} ms, settle ${cost.settleMs.toFixed(2)} ms`;
    if (index > 0) console.log(`  ${inFlight} in flight: ${cost.cpuUs.toFixed(0)} µs, ${waits}`);
  }
}
{
  await using database = await databases.open({ threads: true });
  const startedAt = performance.now();
  let reported = 0;
  await fill(database, rows, (done) => {
    if (done - reported < rows / 20 && done < rows) return;
    reported = done;
    console.error(`  ${done} of ${rows} rows, ${((performance.now() - startedAt) / 1000).toFixed(0)} s`);
  });
  console.log(`${name}: queries over ${rows} rows of ${DAYS} days, median and maximum of ${rounds}`);
  await runQueries(database);
}

async function runQueries(database: TestDatabase): Promise<void> {
  const today = dayOf(Date.now());
  const usage = (by: UsageDimension[]) => () =>
    readUsagePage(database, { by, fromDay: today - 31, toDay: today, accountId: LARGE });
  const page =
    (filter: RequestFilter, before: string | null = null) =>
    () =>
      readRequests(database, { accountId: LARGE, ...filter }, { limit: 50, before });
  const oldId = firstIdAt(Date.now() - 0.9 * DAYS * DAY_MS);
  const day = { fromMs: Date.now() - 20 * DAY_MS, toMs: Date.now() - 19 * DAY_MS };
  await time('monthly usage of the largest account', usage([]));
  await time('… by day', usage(['day']));
  await time('… by day and model', usage(['day', 'model']));
  await time('… by day, model and key', usage(['day', 'model', 'key']));
  await time('monthly usage of all accounts, by account', () =>
    readUsagePage(database, { by: ['account'], fromDay: today - 31, toDay: today }),
  );
  await time('latest page of the request log of the largest account', page({}));
  await time('… older than 90% of the rows', page({}, oldId));
  await time('… of one model', page({ model: MODELS[2] ?? null }));
  await time('… of one key on one day', page({ keyId: `${LARGE}_key_3`, ...day }));
  await time('… with status 5xx, 1 in 10,000 requests', page({ statusClass: 5 }));
  await time('… with a rare error, older than 90% of the rows', page({ errorCode: RARE }, oldId));
  await time('… with an error that never occurred', page({ errorCode: 'queue_full' }));
  await time('latest page of all accounts', () => readRequests(database, {}, { limit: 50 }));
}

async function time(label: string, query: () => Promise<unknown>): Promise<void> {
  const times: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const startedAt = performance.now();
    await query();
    times.push(performance.now() - startedAt);
  }
  // The first is a warm-up.
  times.shift();
  console.log(`  ${label}: ${median(times).toFixed(1)} ms, ${Math.max(...times).toFixed(1)} ms`);
}
