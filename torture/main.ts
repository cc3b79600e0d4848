/**
 * `npm run torture`: kills, pauses and starves the service, its engines and its databases while callers record their
 * responses, then compares the records with the ledger. Exits with 1 if they differ.
 */
import { resolve } from 'node:path';
import { InvalidArgumentError, Command, Option } from 'commander';
import { sendStallingSchemas } from './stalling-schemas.ts';
import { formatResult, formatSchemaResults, printProgress } from './report.ts';
import { torture } from './run.ts';

interface Flags {
  faults: number;
  database: 'sqlite' | 'postgres';
  instances?: number;
  callers: number;
  model?: string;
  seed?: number;
}

const program = new Command('npm run torture --')
  .description('Inject faults into the service and compare the records of its callers with its ledger.')
  .option('--faults <count>', 'number of faults', wholeNumber, 1000)
  .addOption(
    new Option('--database <kind>', 'sqlite: one instance; postgres: several instances, with Valkey or Redis')
      .choices(['sqlite', 'postgres'])
      .default('postgres'),
  )
  .option('--instances <count>', 'number of instances on PostgreSQL (default: 2)', wholeNumber)
  .option('--callers <count>', 'number of concurrent callers', wholeNumber, 12)
  .option('--model <file>', 'GGUF file; before the faults, JSON schemas try to stall its engine')
  .option(
    '--seed <number>',
    'seed that an earlier run printed, to repeat its faults and requests (default: random)',
    wholeNumber,
  )
  .parse();
const flags = program.opts<Flags>();
if (flags.database === 'sqlite' && (flags.instances ?? 1) !== 1)
  program.error('SQLite supports only one instance.');

const finish = new AbortController();
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    if (finish.signal.aborted) return stop.abort(new Error(`ended by ${signal}`));
    console.log('Stopping the faults and comparing the records. Press Ctrl+C again to exit immediately.');
    finish.abort();
  });
}
const { faults, database, callers, seed = Math.floor(Math.random() * 1e9) } = flags;
const instances = database === 'sqlite' ? 1 : (flags.instances ?? 2);
console.log(`${faults} faults, ${database}, ${instances} instances, ${callers} callers, seed ${seed}`);
try {
  const schemas = flags.model === undefined ? null : await sendStallingSchemas(resolve(flags.model), seed);
  if (schemas !== null) console.log(formatSchemaResults(schemas));
  const result = await torture({
    faults,
    database,
    instances,
    callers,
    seed,
    waitsForAlerts: true,
    finish: finish.signal,
    stop: stop.signal,
    onProgress: printProgress(faults),
  });
  console.log(formatResult(result));
  process.exitCode = result.differences.length + (schemas?.errors.length ?? 0) === 0 ? 0 : 1;
} catch (error) {
  if (!stop.signal.aborted) throw error;
  console.log(String(stop.signal.reason));
  process.exitCode = 130;
}

/** Throws commander's `InvalidArgumentError`. */
function wholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Expected a whole number.');
}
