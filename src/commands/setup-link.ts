import type { Command } from 'commander';
import { makeSetupLink } from '../identity/setup.ts';
import { openDatabaseHere, publicUrlHere } from './open.ts';
import { note, print } from './output.ts';

/** `sluice setup-link`: works on the database itself, whether a service runs beside or not. */
export function register(program: Command): void {
  program
    .command('setup-link')
    .description('Print the link with which the first operator signs up in the console.')
    .option('--url <url>', 'address of the service, where the configuration has another one')
    .addHelpText(
      'after',
      `
The link opens once, for 60 minutes, while there is no operator; another one takes its place.

Example:
  $ sluice setup-link`,
    )
    .action(setupLink);
}

async function setupLink({ url }: { url?: string }): Promise<void> {
  const publicUrl = await publicUrlHere(url);
  await using database = await openDatabaseHere();
  const link = await makeSetupLink(database, publicUrl);
  if (link === null) {
    note(
      'There is an operator already. `sluice people list` shows who; `sluice people make-operator` makes more.',
    );
    process.exitCode = 1;
    return;
  }
  note('Open this link in a browser within 60 minutes:');
  print(link);
}
