import { resolve } from 'node:path';
import type { Command } from 'commander';
import { prepareHome } from '../config/home.ts';
import { databaseOf } from '../config/load.ts';
import { backupPostgres, backupSqlite } from '../database/backup.ts';
import { assertNotMoved, openDatabase, sqlitePath } from '../database/database.ts';
import { restoreDatabase } from '../database/restore.ts';
import { exitOnSignals, interruptible } from './interruptible.ts';
import { noteMigrationWait } from './open.ts';
import { note } from './output.ts';
import { bar, Terminal } from './progress-bar.ts';
import { PROGRAM } from '../support/program-name.ts';

/** `sluice database …`: migrates, copies or restores the database. Only `restore` needs the service to be stopped. */
export function register(database: Command): void {
  database
    .command('migrate')
    .description(
      'Migrate the database to the schema of this Sluice version. The service also does this when it starts.',
    )
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} database migrate`)
    .action(migrate);
  database
    .command('backup')
    .description(
      'Copy the database to a new SQLite file, even if the database is PostgreSQL. Works while the service is running. The secrets in the copy can only be read with the key in secret.key or SLUICE_SECRET_KEY, so back up that key too.',
    )
    .argument('<file>', 'path of the backup; must not exist yet. Only its owner can read it.')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} database backup /var/backups/sluice.db`)
    .action(backup);
  database
    .command('restore')
    .description(
      'Replace the database with a backup from this or an earlier Sluice version, after checking it. Stop the service first. A backup of either kind of database can be restored to SQLite or PostgreSQL.',
    )
    .argument('<file>', 'path of the backup')
    .option('--overwrite', 'replace existing data')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} database restore /var/backups/sluice.db`)
    .action(restore);
}

async function restore(file: string, { overwrite = false }: { overwrite?: boolean }): Promise<void> {
  const location = databaseOf(process.env);
  await prepareHome(location.home);
  exitOnSignals();
  await restoreDatabase(resolve(file), { ...location, overwrite });
  note(`Restored ${resolve(file)}.`);
  note(`Keys that were revoked since the backup are valid again: see \`${PROGRAM} keys list\`.`);
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
    onMigrationWait: noteMigrationWait,
  });
  note(applied === 0 ? 'The database is up to date.' : 'The database was migrated to this version.');
}

async function backup(file: string): Promise<void> {
  const { home, url } = databaseOf(process.env);
  const target = resolve(file);
  // Aborting a backup deletes the incomplete copy.
  await interruptible(async (signal) => {
    using progress = progressBar();
    const options = { signal, onProgress: progress.update };
    // Does not migrate the database first: this may be the backup before an upgrade to this version.
    if (url === null) {
      assertNotMoved(home);
      await backupSqlite(sqlitePath(home), target, options);
    } else await backupPostgres(url, target, options);
  }, 'Interrupted. No backup was written.');
  note(`Backup written to ${target}`);
}

/** Creates a progress bar that is shown only on a terminal. */
function progressBar(): Disposable & { update: (fraction: number) => void } {
  if (!process.stderr.isTTY) return { update() {}, [Symbol.dispose]() {} };
  const terminal = new Terminal(process.stderr);
  return {
    update: (fraction) => terminal.setStatus(`Copying  ${bar(fraction)}  ${Math.floor(100 * fraction)}%`),
    [Symbol.dispose]: () => terminal.setStatus(''),
  };
}
