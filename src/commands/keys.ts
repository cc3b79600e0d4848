import { InvalidArgumentError, Option, type Command } from 'commander';
import type { KeyChange } from '../accounts/key-fields.ts';
import { keyStatus, type KeyKind, type KeyRecord } from '../accounts/key-record.ts';
import { changeKey, createKey, listKeyPage, revokeKey } from '../accounts/key-table.ts';
import { everyItem } from '../accounts/page.ts';
import { modelId } from '../config/plan.ts';
import { DEFAULT_ACCOUNT_ID } from '../database/schema.ts';
import { parseDuration } from './duration.ts';
import { editLimits, LIMIT_NAMES, parseBudget, parseLimit, type LimitEdit } from './limit-options.ts';
import { commandLineActor, openDatabaseHere } from './open.ts';
import { isoTime, note, print, printJson, printTable, shortTime } from './output.ts';

/** `sluice keys …`: works on the database itself, whether a service runs beside or not. */
export function register(program: Command): void {
  const keys = program.command('keys').description('Make, list, change and revoke API keys.');
  const made = keys
    .command('create')
    .description('Make a key and show it once.')
    .requiredOption('--name <name>', 'what people call it')
    .option('--account <account>', 'id of the account it belongs to', DEFAULT_ACCOUNT_ID)
    .addOption(
      new Option('--kind <kind>', 'caller: may generate; admin: may also manage accounts over HTTP')
        .choices(['caller', 'admin'] satisfies KeyKind[])
        .default('caller'),
    )
    .option(
      '--expires-in <duration>',
      'such as 30d, 12h or 90m; left out: it does not expire',
      parseDuration,
    );
  restrictions(made, 'left out: all')
    .option('--json', 'print {"id","key","name","created_at"}, the time as ISO 8601')
    .addHelpText('after', `${LIMITS_HELP}\nExample:\n  $ sluice keys create --name laptop --expires-in 30d`)
    .action(create);
  keys
    .command('list')
    .description('List every key, revoked ones too, without the keys themselves.')
    .option('--account <account>', 'only those of this account')
    .option('--json', 'print an array of objects, times as ISO 8601')
    .addHelpText('after', '\nExample:\n  $ sluice keys list')
    .action(list);
  const changed = keys
    .command('update')
    .description('Change a key: within a second it holds everywhere. What is not named stays.')
    .argument('<key>', 'its id, its first characters as listed, or the key itself')
    .option('--name <name>', 'what people call it')
    .option('--expires-in <duration>', 'from now, such as 30d; never: it does not expire', parseExpiry);
  restrictions(changed, 'or all')
    .addHelpText(
      'after',
      `${LIMITS_HELP}\nExample:\n  $ sluice keys update key_0123456789abcdef01234567 --budget 25 --limit tokensPerDay=none`,
    )
    .action(update);
  keys
    .command('revoke')
    .description('Revoke a key: within a second nothing is opened by it.')
    .argument('<key>', 'its id, its first characters as listed, or the key itself')
    .addHelpText('after', '\nExample:\n  $ sluice keys revoke key_0123456789abcdef01234567')
    .action(revoke);
}

/** The options that `create` and `update` share. */
function restrictions(command: Command, models: string): Command {
  return command
    .option('--models <ids>', `ids of the models it may use, with commas between; ${models}`, parseModels)
    .option('--limit <name=value>', 'a limit of its own; may be given several times', parseLimit)
    .option('--budget <usd>', 'most USD a month, the same as --limit usdPerMonth=<usd>', parseBudget);
}

const LIMITS_HELP = `
Limits of a key hold beside those of its account's plan. Their names are
  ${LIMIT_NAMES.join('\n  ')}
A limit for one model is name@model=value; name=none takes a limit away.
`;

interface Restrictions {
  /** None: all. */
  models?: string[];
  limit?: LimitEdit[];
  budget?: LimitEdit;
}

interface CreateFlags extends Restrictions {
  name: string;
  account: string;
  kind: KeyKind;
  expiresIn?: number;
  json?: true;
}

async function create(flags: CreateFlags): Promise<void> {
  await using database = await openDatabaseHere();
  const wanted = {
    name: flags.name,
    kind: flags.kind,
    accountId: flags.account,
    expiresAt: flags.expiresIn === undefined ? null : Date.now() + flags.expiresIn,
    allowedModels: allowed(flags.models) ?? null,
    limits: editLimits(null, editsOf(flags)),
  };
  const { key, record } = await createKey(database, wanted, commandLineActor());
  if (flags.json) {
    // The one place, with the line below, where a key is meant to be seen.
    const created = isoTime(record.createdAt);
    printJson({ id: record.id, key: key.reveal(), name: record.name, created_at: created });
    return;
  }
  note(`Key ${record.id} (${record.name}). It is shown this once:`);
  print(key.reveal());
}

async function list(flags: { account?: string; json?: true }): Promise<void> {
  await using database = await openDatabaseHere();
  const filter = { accountId: flags.account };
  const keys = await Array.fromAsync(everyItem((page) => listKeyPage(database, filter, page)));
  const now = Date.now();
  if (flags.json) {
    printJson(keys.map((key) => asJson(key, now)));
  } else if (keys.length === 0) {
    note('There is no key yet. Make one: sluice keys create --name <name>');
  } else {
    printTable(
      ['ID', 'ACCOUNT', 'NAME', 'KIND', 'KEY', 'STATUS', 'CREATED', 'EXPIRES', 'LAST USED'],
      keys.map((key) => [
        key.id,
        key.accountId,
        key.name,
        key.kind,
        `${key.prefix}…${key.lastFour}`,
        keyStatus(key, now),
        shortTime(key.createdAt),
        shortTime(key.expiresAt),
        shortTime(key.lastUsedAt),
      ]),
    );
  }
}

interface UpdateFlags extends Restrictions {
  name?: string;
  /** Infinity: never. */
  expiresIn?: number;
}

async function update(named: string, flags: UpdateFlags): Promise<void> {
  await using database = await openDatabaseHere();
  const { name, models, expiresIn } = flags;
  const expiresAt = expiresIn === Infinity ? null : expiresIn && Date.now() + expiresIn;
  const edits = editsOf(flags);
  const wanted = ({ limits }: KeyRecord): KeyChange => ({
    name,
    expiresAt,
    allowedModels: allowed(models),
    limits: edits.length === 0 ? undefined : editLimits(limits, edits),
  });
  const key = await changeKey(database, named, wanted, commandLineActor());
  if (key === null) return noSuchKey();
  note(`Key ${key.id} (${key.name}) is changed.`);
}

async function revoke(named: string): Promise<void> {
  await using database = await openDatabaseHere();
  const key = await revokeKey(database, named, commandLineActor());
  if (key === null) return noSuchKey();
  note(`Key ${key.id} (${key.name}) is revoked.`);
}

function noSuchKey(): void {
  note('There is no such key. `sluice keys list` shows those there are.');
  process.exitCode = 1;
}

function editsOf({ limit = [], budget }: Restrictions): LimitEdit[] {
  return budget === undefined ? limit : [...limit, budget];
}

function allowed(models: string[] | undefined): string[] | null | undefined {
  return models?.length === 0 ? null : models;
}

/** For commander, which would make an empty text of null. */
function parseExpiry(text: string): number {
  return text === 'never' ? Infinity : parseDuration(text);
}

/** For commander, as `parseExpiry`. */
function parseModels(text: string): string[] {
  if (text === 'all') return [];
  const ids = text.split(',').map((id) => id.trim());
  const wrong = ids.find((id) => !modelId.safeParse(id).success);
  if (wrong === undefined) return ids;
  throw new InvalidArgumentError('Expected ids such as HuggingFaceTB/SmolLM2-135M-Instruct.');
}

function asJson(key: KeyRecord, now: number): Record<string, unknown> {
  return {
    id: key.id,
    account_id: key.accountId,
    name: key.name,
    kind: key.kind,
    prefix: key.prefix,
    last_four: key.lastFour,
    status: keyStatus(key, now),
    allowed_models: key.allowedModels,
    limits: key.limits,
    created_at: isoTime(key.createdAt),
    expires_at: isoTime(key.expiresAt),
    revoked_at: isoTime(key.revokedAt),
    last_used_at: isoTime(key.lastUsedAt),
  };
}
