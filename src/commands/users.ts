import type { Command } from 'commander';
import { setOperator, findUser, listUsers } from '../accounts/users.ts';
import { everyItem } from '../accounts/page.ts';
import type { Database } from '../database/database.ts';
import { userJson } from '../http/api/json.ts';
import { Identity } from '../identity/identity.ts';
import { createResetLink } from '../identity/reset.ts';
import { resetSecondFactor } from '../identity/settings.ts';
import { SILENT } from '../support/log.ts';
import {
  addUrlOption,
  commandLineActor,
  configuredSecretKeys,
  openConfiguredDatabase,
  loadPublicUrl,
} from './open.ts';
import { note, print, printJson, printTable, shortTime } from './output.ts';
import { PROGRAM } from '../support/program-name.ts';

/** `sluice users …`: changes the database directly, with or without a running service. */
export function register(users: Command): void {
  users
    .command('list')
    .description('List all users.')
    .option('--json', 'print a JSON array, with ISO 8601 times')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} users list`)
    .action(list);
  users
    .command('make-operator')
    .description('Make a user an operator, who can manage the whole service.')
    .argument('<user>', 'user ID or email address')
    .option('--allow-unverified', 'even if the user has not confirmed their email address')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} users make-operator zoe@example.com`)
    .action(setOperatorRole(true));
  for (const [name, description, action] of [
    ['unmake-operator', 'Remove the operator role from a user.', setOperatorRole(false)],
    [
      'reset-second-factor',
      'Disable two-factor authentication for a user, and sign them out everywhere.',
      disableSecondFactor,
    ],
  ] as const) {
    users
      .command(name)
      .description(description)
      .argument('<user>', 'user ID or email address')
      .addHelpText('after', `\nExample:\n  $ ${PROGRAM} users ${name} zoe@example.com`)
      .action(action);
  }
  addUrlOption(users.command('password-link'))
    .description('Print a password reset link for a user. The link works once and expires after one hour.')
    .argument('<user>', 'user ID or email address')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} users password-link zoe@example.com`)
    .action(passwordLink);
}

async function list(flags: { json?: true }): Promise<void> {
  await using database = await openConfiguredDatabase();
  const users = await Array.fromAsync(everyItem((page) => listUsers(database, page)));
  if (flags.json) return printJson(users.map(userJson));
  if (users.length === 0)
    return note(`No users yet. Run \`${PROGRAM} setup-link\` to create the first operator.`);
  printTable(
    users.map((user) => ({
      ID: user.id,
      NAME: user.name,
      EMAIL: user.email,
      VERIFIED: yesOrNo(user.email_verified),
      OPERATOR: yesOrNo(user.operator),
      'TWO-FACTOR': yesOrNo(user.two_factor),
      CREATED: shortTime(user.created_at),
    })),
  );
}

const yesOrNo = (flag: number): string => (flag === 1 ? 'yes' : 'no');

function setOperatorRole(
  operator: boolean,
): (idOrEmail: string, flags: { allowUnverified?: true }) => Promise<void> {
  return async (idOrEmail, { allowUnverified }) => {
    await using database = await openConfiguredDatabase();
    const user = await findUser(database, idOrEmail);
    if (user === null) return failUnknownUser();
    await setOperator(database, user.id, { operator, allowUnverified }, commandLineActor());
    note(`${user.name} <${user.email}> is ${operator ? 'now' : 'no longer'} an operator.`);
  };
}

async function disableSecondFactor(idOrEmail: string): Promise<void> {
  await using database = await openConfiguredDatabase();
  const user = await findUser(database, idOrEmail);
  if (user === null) return failUnknownUser();
  const wasEnabled = await resetSecondFactor(database, user.id, commandLineActor());
  const shown = `${user.name} <${user.email}>`;
  note(
    wasEnabled
      ? `Disabled two-factor authentication for ${shown}.`
      : `${shown} does not use two-factor authentication.`,
  );
}

async function passwordLink(idOrEmail: string, { url }: { url?: string }): Promise<void> {
  await using database = await openConfiguredDatabase();
  const user = await findUser(database, idOrEmail);
  if (user === null) return failUnknownUser();
  const publicUrl = await loadPublicUrl(url);
  await using identity = identityOf(database, publicUrl);
  note(`${user.name} <${user.email}> can set a new password with this link within an hour:`);
  print(await createResetLink(identity, user.id, commandLineActor()));
}

/** Creates an `Identity` without sign-in providers or email. */
function identityOf(database: Database, publicUrl: string): Identity {
  const config = { signIn: { providers: [], allowUnknownUsers: false }, smtp: undefined };
  const secretKeys = configuredSecretKeys();
  const secrets = new Map();
  return new Identity({ database, config, secrets, secretKeys, publicUrl: () => publicUrl, log: SILENT });
}

function failUnknownUser(): void {
  note(`No such user. Run \`${PROGRAM} users list\` to see all users.`);
  process.exitCode = 1;
}
