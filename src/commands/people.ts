import type { Command } from 'commander';
import { setOperator } from '../accounts/operators.ts';
import { everyItem } from '../accounts/page.ts';
import { findPerson, listPeople, type PersonRecord } from '../accounts/people.ts';
import type { Database } from '../database/database.ts';
import { Identity } from '../identity/identity.ts';
import { makeResetLink } from '../identity/reset.ts';
import { resetSecondFactor } from '../identity/settings.ts';
import { SILENT } from '../log.ts';
import { commandLineActor, openDatabaseHere, publicUrlHere } from './open.ts';
import { isoTime, note, print, printJson, printTable, shortTime } from './output.ts';
import { PROGRAM } from '../program-name.ts';

/** `sluice people …`: works on the database itself, whether a service runs beside or not. */
export function register(program: Command): void {
  const people = program
    .command('people')
    .description('List users, manage operators and reset lost passwords.');
  people
    .command('list')
    .description('List all users.')
    .option('--json', 'print a JSON array, with ISO 8601 times')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} people list`)
    .action(list);
  for (const [name, description, action] of [
    ['make-operator', 'Make a user an operator, who can manage the whole service.', makeOperator(true)],
    ['unmake-operator', 'Remove the operator role from a user.', makeOperator(false)],
    [
      'reset-second-factor',
      'Disable two-factor authentication for a user, and sign them out everywhere.',
      withoutFactor,
    ],
  ] as const) {
    people
      .command(name)
      .description(description)
      .argument('<person>', 'user ID or email address')
      .addHelpText('after', `\nExample:\n  $ ${PROGRAM} people ${name} zoe@example.com`)
      .action(action);
  }
  people
    .command('password-link')
    .description('Print a password reset link for a user. It works once, for an hour.')
    .argument('<person>', 'user ID or email address')
    .option('--url <url>', 'URL of the service, if it differs from the configuration')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} people password-link zoe@example.com`)
    .action(passwordLink);
}

async function list(flags: { json?: true }): Promise<void> {
  await using database = await openDatabaseHere();
  const people = await Array.fromAsync(everyItem((page) => listPeople(database, page)));
  if (flags.json) return printJson(people.map(personJson));
  if (people.length === 0)
    return note(`No users yet. Run \`${PROGRAM} setup-link\` to create the first operator.`);
  printTable(
    ['ID', 'NAME', 'EMAIL', 'OPERATOR', 'TWO-FACTOR', 'CREATED'],
    people.map(({ id, name, email, operator, twoFactor, createdAt }) => [
      id,
      name,
      email,
      operator ? 'yes' : 'no',
      twoFactor ? 'yes' : 'no',
      shortTime(createdAt),
    ]),
  );
}

function makeOperator(operator: boolean): (named: string) => Promise<void> {
  return async (named) => {
    await using database = await openDatabaseHere();
    const person = await findPerson(database, named);
    if (person === null) return nobody();
    await setOperator(database, person.id, operator, commandLineActor());
    note(`${person.name} <${person.email}> is ${operator ? 'now' : 'no longer'} an operator.`);
  };
}

async function withoutFactor(named: string): Promise<void> {
  await using database = await openDatabaseHere();
  const person = await findPerson(database, named);
  if (person === null) return nobody();
  const had = await resetSecondFactor(database, person.id, commandLineActor());
  const who = `${person.name} <${person.email}>`;
  note(
    had ? `Disabled two-factor authentication for ${who}.` : `${who} does not use two-factor authentication.`,
  );
}

async function passwordLink(named: string, { url }: { url?: string }): Promise<void> {
  const publicUrl = await publicUrlHere(url);
  await using database = await openDatabaseHere();
  const person = await findPerson(database, named);
  if (person === null) return nobody();
  await using identity = identityOf(database, publicUrl);
  note(`${person.name} <${person.email}> can set a new password with this link within an hour:`);
  print(await makeResetLink(identity, person.id, commandLineActor()));
}

/** For what needs neither a provider nor mail. */
function identityOf(database: Database, publicUrl: string): Identity {
  const config = { signIn: { providers: [], letInUnknown: false }, smtp: undefined };
  return new Identity({ database, config, secrets: new Map(), publicUrl: () => publicUrl, log: SILENT });
}

function nobody(): void {
  note(`No such user. Run \`${PROGRAM} people list\` to see all users.`);
  process.exitCode = 1;
}

function personJson(person: PersonRecord): Record<string, unknown> {
  const { id, name, email, operator, twoFactor, createdAt } = person;
  return { id, name, email, operator, two_factor: twoFactor, created_at: isoTime(createdAt) };
}
