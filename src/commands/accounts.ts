import type { Command } from 'commander';
import {
  changeAccount,
  createAccount,
  getAccount,
  listAccounts,
  findPlan,
  type AccountChange,
  type AccountRow,
} from '../accounts/accounts.ts';
import { keyStatus, listKeyPage } from '../accounts/key-table.ts';
import { everyItem } from '../accounts/page.ts';
import { readLimits } from '../accounts/plans.ts';
import { listMembers } from '../accounts/users.ts';
import type { PlanLimits } from '../config/plan.ts';
import type { Database } from '../database/database.ts';
import { accountJson } from '../http/api/json.ts';
import {
  addLimitOptions,
  describeLimits,
  editLimits,
  editsOf,
  LIMITS_HELP,
  type LimitFlags,
} from './limit-options.ts';
import { commandLineActor, openConfiguredDatabase, loadPlans } from './open.ts';
import { note, print, printJson, printTable, shortTime } from './output.ts';
import { PROGRAM } from '../support/program-name.ts';

/** `sluice accounts …`: changes the database directly. A running service applies the changes within a second. */
export function register(accounts: Command): void {
  accounts
    .command('create')
    .description('Create an account and print its ID.')
    .requiredOption('--name <name>', 'display name')
    .option('--plan <plan>', 'plan from the configuration (default: the default plan)')
    .option('--json', 'print the account as JSON')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} accounts create --name acme --plan standard`)
    .action(create);
  accounts
    .command('list')
    .description('List all accounts, including closed ones.')
    .option('--json', 'print a JSON array, with ISO 8601 times')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} accounts list`)
    .action(list);
  accounts
    .command('show')
    .description('Show an account, its own limits, its keys and its members.')
    .argument('<account>', 'account ID')
    .option('--json', 'print {"account","keys","members"} as JSON, with ISO 8601 times')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} accounts show default`)
    .action(show);
  registerChanges(accounts);
}

function registerChanges(accounts: Command): void {
  accounts
    .command('set-plan')
    .description('Change the plan of an account. Applies to all of its keys within a second.')
    .argument('<account>', 'account ID')
    .argument('[plan]', 'plan from the configuration (default: the default plan)')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} accounts set-plan acct_0123456789abcdef01234567 free`)
    .action(async (id: string, plan?: string) => {
      await change(id, { plan: plan === undefined ? null : findPlan(await loadPlans(), plan) });
    });
  addLimitOptions(
    accounts
      .command('set-limits')
      .description(
        "Change the account's own limits, which take the place of those of its plan. Applies within a second.",
      )
      .argument('<account>', 'account ID'),
  )
    .addHelpText(
      'after',
      `${LIMITS_HELP}\nExample:\n  $ ${PROGRAM} accounts set-limits acct_0123456789abcdef01234567 --budget 25`,
    )
    .action(setLimits);
  for (const [name, status, description] of [
    ['suspend', 'suspended', 'Suspend an account: all of its keys are refused until it is resumed.'],
    ['resume', 'active', 'Resume a suspended account.'],
    ['close', 'closed', 'Close an account permanently. Its ledger is kept.'],
  ] as const) {
    accounts
      .command(name)
      .description(description)
      .argument('<account>', 'account ID')
      .addHelpText('after', `\nExample:\n  $ ${PROGRAM} accounts ${name} acct_0123456789abcdef01234567`)
      .action((id: string) => change(id, { status }));
  }
}

async function create(flags: { name: string; plan?: string; json?: true }): Promise<void> {
  const plan = flags.plan === undefined ? null : findPlan(await loadPlans(), flags.plan);
  await using database = await openConfiguredDatabase();
  const account = await createAccount(database, { name: flags.name, plan }, commandLineActor());
  if (flags.json) return printJson(accountJson(account));
  note(`Created account ${account.name} on ${describePlan(account)}. Its ID:`);
  print(account.id);
}

async function list(flags: { json?: true }): Promise<void> {
  await using database = await openConfiguredDatabase();
  const accounts = await Array.fromAsync(everyItem((page) => listAccounts(database, page)));
  if (flags.json) return printJson(accounts.map(accountJson));
  printTable(
    accounts.map(({ id, name, plan, limits, status, created_at: createdAt }) => ({
      ID: id,
      NAME: name,
      PLAN: `${plan ?? '(default)'}${limits === null ? '' : ', own limits'}`,
      STATUS: status,
      CREATED: shortTime(createdAt),
    })),
  );
}

async function show(id: string, flags: { json?: true }): Promise<void> {
  await using database = await openConfiguredDatabase();
  const account = await getAccount(database, id);
  const { keys, members } = await listKeysAndMembers(database, id);
  const now = Date.now();
  if (flags.json) {
    return printJson({
      account: accountJson(account),
      keys: keys.map((key) => ({ id: key.id, name: key.name, status: keyStatus(key, now) })),
      members: members.map((member) => ({
        id: member.id,
        name: member.name,
        email: member.email,
        email_verified: member.email_verified === 1,
        role: member.role,
      })),
    });
  }
  print(`${account.id}  ${account.name}`);
  print(`${account.status}, on ${describePlan(account)}, created ${shortTime(account.created_at)}`);
  const limits = readLimits(account.limits);
  if (limits !== null) {
    print(
      `Own limits: ${limits === undefined ? 'damaged, so its requests are refused' : describeLimits(limits)}`,
    );
  }
  print(keys.length === 0 ? 'No keys' : 'Keys:');
  for (const key of keys) print(`  ${key.id}  ${key.name}  ${keyStatus(key, now)}`);
  print(members.length === 0 ? 'No members' : 'Members:');
  for (const { id: userId, name, email, email_verified: verified, role } of members) {
    print(`  ${userId}  ${name} <${email}>  ${role}${verified === 1 ? '' : '  (email not verified)'}`);
  }
}

async function listKeysAndMembers(database: Database, accountId: string) {
  return {
    keys: await Array.fromAsync(everyItem((page) => listKeyPage(database, { accountId }, page))),
    members: await Array.fromAsync(everyItem((page) => listMembers(database, accountId, page))),
  };
}

async function setLimits(id: string, flags: LimitFlags): Promise<void> {
  const edits = editsOf(flags);
  if (edits.length === 0) {
    note('Give at least one --limit or --budget.');
    process.exitCode = 1;
    return;
  }
  await using database = await openConfiguredDatabase();
  const limits = (now: PlanLimits | null) => editLimits(now, edits);
  const account = await changeAccount(database, id, { limits }, commandLineActor());
  note(`The limits of account ${account.id} (${account.name}): ${account.limits ?? 'those of its plan'}.`);
}

async function change(id: string, changes: AccountChange): Promise<void> {
  await using database = await openConfiguredDatabase();
  const account = await changeAccount(database, id, changes, commandLineActor());
  note(`Account ${account.id} (${account.name}) is ${account.status}, on ${describePlan(account)}.`);
}

function describePlan({ plan }: AccountRow): string {
  return plan === null ? 'the default plan' : `the plan ${plan}`;
}
