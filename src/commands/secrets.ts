import type { Command } from 'commander';
import { prepareHome } from '../config/home.ts';
import { databaseOf } from '../config/load.ts';
import { secretKeyPath } from '../database/secret-keys.ts';
import { rotateSecrets } from '../identity/stored-secrets.ts';
import { PROGRAM } from '../support/program-name.ts';
import { configuredSecretKeys, openConfiguredDatabase } from './open.ts';
import { note } from './output.ts';

/** `sluice secrets rotate`: changes the key that encrypts secrets, with or without a running service. */
export function register(secrets: Command): void {
  secrets
    .command('rotate')
    .description(
      'Encrypt the secrets in the database with a new key. The command adds this key to the key file, or uses the first key of SLUICE_SECRET_KEY if that is set. Earlier keys stay in the file, because older backups need them.',
    )
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} secrets rotate`)
    .action(rotate);
}

async function rotate(): Promise<void> {
  const keys = configuredSecretKeys();
  const { home } = databaseOf(process.env);
  if (keys.inFile) await prepareHome(home);
  await using database = await openConfiguredDatabase();
  const count = await rotateSecrets(database, keys);
  const key = keys.inFile ? `the new key in ${secretKeyPath(home)}` : 'the first key of SLUICE_SECRET_KEY';
  note(`Encrypted ${count} ${count === 1 ? 'secret' : 'secrets'} with ${key}.`);
  if (keys.inFile) note('Back up this file, separately from the database.');
}
