import type { Command } from 'commander';
import { hasOperator } from '../accounts/users.ts';
import { createSetupLink } from '../identity/setup.ts';
import { addUrlOption, loadPublicUrl, openConfiguredDatabase } from './open.ts';
import { note, print } from './output.ts';
import { PROGRAM } from '../support/program-name.ts';

/** `sluice setup-link`: prints the link that creates the first operator, with or without a running service. */
export function register(command: Command): void {
  addUrlOption(command)
    .addHelpText(
      'after',
      `
The link works once, expires after 60 minutes, and works only while there is no operator. A new link replaces the previous one.

Example:
  $ ${PROGRAM} setup-link`,
    )
    .action(setupLink);
}

async function setupLink({ url }: { url?: string }): Promise<void> {
  await using database = await openConfiguredDatabase();
  const link = (await hasOperator(database))
    ? null
    : await createSetupLink(database, await loadPublicUrl(url));
  if (link === null) {
    note(
      `The service already has an operator. Run \`${PROGRAM} users list\` to see the users, and \`${PROGRAM} users make-operator\` to add an operator.`,
    );
    process.exitCode = 1;
    return;
  }
  note('Open this link in a browser within 60 minutes:');
  print(link);
}
