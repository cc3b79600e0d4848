/**
 * Writes to a ledger while its disk fills up and after space is freed, then prints the results as JSON. The argument
 * is an empty folder on a disk of a few megabytes.
 */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ServiceError } from '../../../src/core/errors.ts';
import { openDatabase } from '../../../src/database/database.ts';
import { until } from '../../harness.ts';
import { counts, open, newRow, settlement, readRow, countByState, readUsageDays } from './fixture.ts';

const [home = ''] = process.argv.slice(2);
const ballast = join(home, 'ballast');

async function codeOf(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'none',
    (error: unknown) => (error instanceof ServiceError ? error.code : String(error)),
  );
}

await using database = await openDatabase({ home, url: null, threads: true });
await using ledger = await open(database, { settleWaitMs: 100, leaseMs: 86_400_000 });
const running = newRow();
await ledger.open(running, counts());
await writeFile(ballast, Buffer.alloc(64 << 20)).catch(() => {});
let opened = 0;
let refused: string;
while ((refused = await codeOf(ledger.open(newRow({ limits: 'x'.repeat(4000) }), counts()))) === 'none')
  opened += 1;
const atOnce = await codeOf(ledger.open(newRow(), counts()));
const late = await codeOf(ledger.settle(running.id, settlement()));
const { health } = ledger;
await rm(ballast);
await until(() => ledger.health.writable);
const afterwards = await codeOf(ledger.open(newRow(), counts()));
const after = await readRow(database, running.id);
const days = await readUsageDays(database);
process.stdout.write(
  JSON.stringify({
    refused,
    atOnce,
    late,
    health,
    afterwards,
    opened,
    state: after?.state,
    settled: days.reduce((sum, { requests }) => sum + requests, 0),
    countByState: await countByState(database),
  }),
);
