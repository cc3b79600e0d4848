import { resolve } from 'node:path';
import type { Command } from 'commander';
import { prepareHome } from '../config/home.ts';
import { databaseOf } from '../config/load.ts';
import { backupSqlite } from '../database/backup.ts';
import { openDatabase, sqlitePath } from '../database/database.ts';
import { note } from './output.ts';
import { bar } from './progress-bar.ts';
import { Terminal } from './terminal.ts';
import { PROGRAM } from '../program-name.ts';

/** `sluice database migrate|backup`: migrates or copies the database, with or without a running service. */
export function register(program: Command): void {
  const database = program.command('database').description('Migrate or back up the database.');
  database
    .command('migrate')
    .description(
      'Migrate the database to the schema of this Sluice version. The service also does this when it starts.',
    )
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} database migrate`)
    .action(migrate);
  database
    .command('backup')
    .description('Copy the SQLite database to a new file. Works while the service is running.')
    .argument('<file>', 'path of the backup; must not exist yet. Only its owner can read it.')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} database backup /var/backups/sluice.db`)
    .action(backup);
}

async function migrate(): Promise<void> {
  const location = databaseOf(process.env);
  if (location.url === null) await prepareHome(location.home);
  let applied = 0;
  await using _database = await openDatabase({
    ...location,
    onMigration(name) {
      applied += 1;
      note(`Applying ${name} …`);
    },
  });
  note(applied === 0 ? 'The database is up to date.' : 'The database was migrated to this version.');
}

async function backup(file: string): Promise<void> {
  const { home, url } = databaseOf(process.env);
  if (url !== null) {
    note('The database is PostgreSQL. Back it up with its own tool:');
    note('  pg_dump --format=custom --file=sluice.dump "$SLUICE_DATABASE_URL"');
    process.exitCode = 1;
    return;
  }
  const target = resolve(file);
  const stop = new AbortController();
  // When aborted, `backupSqlite` deletes the incomplete copy.
  const interrupt = (signal: NodeJS.Signals) => stop.abort(signal);
  for (const signal of SIGNALS) process.once(signal, interrupt);
  const progress = progressBar();
  try {
    await backupSqlite(sqlitePath(home), target, { signal: stop.signal, onProgress: progress.update });
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    progress.stop();
    note('Interrupted. No backup was written.');
    process.exitCode = stop.signal.reason === 'SIGINT' ? 130 : 143;
    return;
  } finally {
    progress.stop();
    for (const signal of SIGNALS) process.off(signal, interrupt);
  }
  note(`Backup written to ${target}`);
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Creates a progress bar that is shown only on a terminal. */
function progressBar(): { update: (fraction: number) => void; stop: () => void } {
  if (!process.stderr.isTTY) return { update() {}, stop() {} };
  const terminal = new Terminal(process.stderr);
  return {
    update: (fraction) => terminal.setStatus(`Copying  ${bar(fraction)}  ${Math.floor(100 * fraction)}%`),
    stop: () => terminal.setStatus(''),
  };
}
