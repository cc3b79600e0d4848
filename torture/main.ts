/**
 * `npm run torture`: kills, stops and starves the service, its engines and its stores while callers keep books of
 * what they were told; then compares every book with the ledger. Exit code 1 where one request differs.
 */
import { resolve } from 'node:path';
import { InvalidArgumentError, Command, Option } from 'commander';
import { throwBombs } from './bombs.ts';
import { report, reportOfBombs, tell } from './report.ts';
import { torture } from './run.ts';

interface Flags {
  faults: number;
  database: 'sqlite' | 'postgres';
  copies?: number;
  callers: number;
  model?: string;
  seed?: number;
}

const program = new Command('npm run torture --')
  .description('Strike the service with faults and compare what its callers saw with its ledger.')
  .option('--faults <count>', 'how many faults', wholeNumber, 1000)
  .addOption(
    new Option('--database <kind>', 'postgres: several copies, with Valkey or Redis')
      .choices(['sqlite', 'postgres'])
      .default('sqlite'),
  )
  .option('--copies <count>', 'copies of the service on PostgreSQL; left out: 2', wholeNumber)
  .option('--callers <count>', 'callers at once', wholeNumber, 12)
  .option('--model <file>', 'a GGUF file: JSON schemas made to stall its engine come first')
  .option('--seed <number>', 'repeats the faults and requests of a run; left out: a new one', wholeNumber)
  .parse();
const flags = program.opts<Flags>();
if (flags.database === 'sqlite' && (flags.copies ?? 1) !== 1) program.error('SQLite is for one copy.');

const enough = new AbortController();
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    if (enough.signal.aborted) return stop.abort(new Error(`ended by ${signal}`));
    console.log('No more faults; what has happened is compared. The same again ends at once.');
    enough.abort();
  });
}
const { faults, database, callers, seed = Math.floor(Math.random() * 1e9) } = flags;
const copies = database === 'sqlite' ? 1 : (flags.copies ?? 2);
console.log(`${faults} faults, ${database}, ${copies} copies, ${callers} callers, seed ${seed}`);
try {
  const bombs = flags.model === undefined ? null : await throwBombs(resolve(flags.model), seed);
  if (bombs !== null) console.log(reportOfBombs(bombs));
  const outcome = await torture({
    faults,
    database,
    copies,
    callers,
    seed,
    enough: enough.signal,
    stop: stop.signal,
    onProgress: tell(faults),
  });
  console.log(report(outcome));
  process.exitCode = outcome.differences.length + (bombs?.faults.length ?? 0) === 0 ? 0 : 1;
} catch (error) {
  if (!stop.signal.aborted) throw error;
  console.log(String(stop.signal.reason));
  process.exitCode = 130;
}

/** For commander, which passes the value before as a second argument. */
function wholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Expected a whole number.');
}
