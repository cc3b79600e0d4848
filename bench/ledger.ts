/**
 * The ledger's size and cost: what opening and settling a request costs, then how long questions to millions of rows
 * take. Fills a database of its own, which goes away afterwards.
 *
 *   npm run bench:ledger -- --rows 10000000 --database postgres
 */
import { parseArgs } from 'node:util';
import { dayOf } from '../src/accounts/ledger/days.ts';
import { readRequests, type RequestFilter } from '../src/accounts/ledger/requests.ts';
import type { UsageDimension } from '../src/accounts/ledger/dimensions.ts';
import { readUsage } from '../src/accounts/ledger/usage.ts';
import { firstIdAt } from '../src/database/partitions.ts';
import { testDatabases, type TestDatabase } from '../test/servers.ts';
import { DAYS, fill, LARGE, MODELS, RARE } from './ledger/fill.ts';
import { writeCost } from './ledger/write-cost.ts';
import { median } from './statistics.ts';

const { values: options } = parseArgs({
  options: {
    rows: { type: 'string', default: '10000000' },
    database: { type: 'string', default: 'sqlite' },
    rounds: { type: 'string', default: '15' },
  },
});
const rows = Number(options.rows);
const rounds = Number(options.rounds);
const name = options.database === 'postgres' ? 'PostgreSQL' : 'SQLite';
const databases = testDatabases().find((one) => one.name === name);
if (databases === undefined) throw new Error(`There is no ${name} here.`);

const DAY_MS = 86_400_000;

{
  await using database = await databases.open();
  console.log(`${name}: opening and settling a request, CPU of this process`);
  // The first is for warming up.
  for (const [inFlight, requests] of [
    [16, 2000],
    [1, 1000],
    [16, 10_000],
    [64, 20_000],
  ] as const) {
    const cost = await writeCost(database, inFlight, requests);
    const waits = `open ${cost.openMs.toFixed(2)} ms, settle ${cost.settleMs.toFixed(2)} ms`;
    if (requests !== 2000) console.log(`  ${inFlight} in flight: ${cost.cpuUs.toFixed(0)} µs, ${waits}`);
  }
}
{
  await using database = await databases.open();
  const began = performance.now();
  let told = 0;
  await fill(database, rows, (done) => {
    if (done - told < rows / 20 && done < rows) return;
    told = done;
    console.error(`  ${done} of ${rows} rows, ${((performance.now() - began) / 1000).toFixed(0)} s`);
  });
  console.log(`${name}: questions to ${rows} rows over ${DAYS} days, median of ${rounds} and the longest`);
  await questions(database);
}

async function questions(database: TestDatabase): Promise<void> {
  const today = dayOf(Date.now());
  const usage = (by: UsageDimension[]) => () =>
    readUsage(database, { by, fromDay: today - 31, toDay: today, accountId: LARGE });
  const page =
    (filter: RequestFilter, before: string | null = null) =>
    () =>
      readRequests(database, { accountId: LARGE, ...filter }, { limit: 50, before });
  const deep = firstIdAt(Date.now() - 0.9 * DAYS * DAY_MS);
  const day = { fromMs: Date.now() - 20 * DAY_MS, toMs: Date.now() - 19 * DAY_MS };
  await time("a month's usage of the largest account", usage([]));
  await time('by day', usage(['day']));
  await time('by day and model', usage(['day', 'model']));
  await time('by day, model and key', usage(['day', 'model', 'key']));
  await time('of all accounts, by account', () =>
    readUsage(database, { by: ['account'], fromDay: today - 31, toDay: today }),
  );
  await time('a page of its log: the newest', page({}));
  await time('nine tenths back', page({}, deep));
  await time('of one model', page({ model: MODELS[2] ?? null }));
  await time('of one key on one day', page({ keyId: `${LARGE}_key_3`, ...day }));
  await time('of what failed, one in ten thousand', page({ statusClass: 5 }));
  await time('of an error, from nine tenths back', page({ errorCode: RARE }, deep));
  await time('of an error that there is not', page({ errorCode: 'queue_full' }));
  await time('of all accounts: the newest', () => readRequests(database, {}, { limit: 50 }));
}

async function time(what: string, ask: () => Promise<unknown>): Promise<void> {
  const times: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const began = performance.now();
    await ask();
    times.push(performance.now() - began);
  }
  // The first is for warming up.
  times.shift();
  console.log(`  ${what}: ${median(times).toFixed(1)} ms, ${Math.max(...times).toFixed(1)} ms`);
}
