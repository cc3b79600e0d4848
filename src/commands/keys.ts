import { Option, type Command } from 'commander';
import { keyStatus, type KeyKind, type KeyRecord } from '../accounts/key-record.ts';
import { createKey, listKeys, revokeKey } from '../accounts/key-table.ts';
import { homeOf, prepareHome } from '../config/home.ts';
import { databaseOf } from '../config/load.ts';
import { openDatabase, type Database } from '../database/database.ts';
import { parseDuration } from './duration.ts';
import { isoTime, note, print, printJson, printTable, shortTime } from './output.ts';

/** `sluice keys create|list|revoke`: work on the database itself, whether a service runs beside or not. */
export function register(program: Command): void {
  const keys = program.command('keys').description('Make, list and revoke API keys.');
  keys
    .command('create')
    .description('Make a key and show it once.')
    .requiredOption('--name <name>', 'what people call it')
    .addOption(
      new Option('--kind <kind>', 'caller: may generate; admin: may also see the state of every model')
        .choices(['caller', 'admin'] satisfies KeyKind[])
        .default('caller'),
    )
    .option('--expires-in <duration>', 'such as 30d, 12h or 90m; left out: it does not expire', parseDuration)
    .option('--json', 'print {"id","key","name","created_at"}, the time as ISO 8601')
    .addHelpText('after', '\nExample:\n  $ sluice keys create --name laptop --expires-in 30d')
    .action(create);
  keys
    .command('list')
    .description('List every key, revoked ones too, without the keys themselves.')
    .option('--json', 'print an array of objects, times as ISO 8601')
    .addHelpText('after', '\nExample:\n  $ sluice keys list')
    .action(list);
  keys
    .command('revoke')
    .description('Revoke a key: within a second nothing is opened by it.')
    .argument('<key>', 'its id, its first characters as listed, or the key itself')
    .addHelpText('after', '\nExample:\n  $ sluice keys revoke key_0123456789abcdef01234567')
    .action(revoke);
}

interface CreateFlags {
  name: string;
  kind: KeyKind;
  expiresIn?: number;
  json?: true;
}

async function create(flags: CreateFlags): Promise<void> {
  await using database = await open();
  const expiresAt = flags.expiresIn === undefined ? null : Date.now() + flags.expiresIn;
  const { key, record } = await createKey(database, { name: flags.name, kind: flags.kind, expiresAt });
  if (flags.json) {
    // The one place, with the line below, where a key is meant to be seen.
    const created = isoTime(record.createdAt);
    printJson({ id: record.id, key: key.reveal(), name: record.name, created_at: created });
    return;
  }
  note(`Key ${record.id} (${record.name}). It is shown this once:`);
  print(key.reveal());
}

async function list(flags: { json?: true }): Promise<void> {
  await using database = await open();
  const keys = await listKeys(database);
  const now = Date.now();
  if (flags.json) {
    printJson(keys.map((key) => asJson(key, now)));
  } else if (keys.length === 0) {
    note('There is no key yet. Make one: sluice keys create --name <name>');
  } else {
    printTable(
      ['ID', 'NAME', 'KIND', 'KEY', 'STATUS', 'CREATED', 'EXPIRES', 'LAST USED'],
      keys.map((key) => [
        key.id,
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

async function revoke(named: string): Promise<void> {
  await using database = await open();
  const key = await revokeKey(database, named);
  if (key === null) {
    note('There is no such key. `sluice keys list` shows those there are.');
    process.exitCode = 1;
    return;
  }
  note(`Key ${key.id} (${key.name}) is revoked.`);
}

/** Reads no configuration file: a fault in it must not keep anybody from revoking a key. */
async function open(): Promise<Database> {
  const home = homeOf(process.env);
  await prepareHome(home);
  return await openDatabase(databaseOf(process.env));
}

function asJson(key: KeyRecord, now: number): Record<string, string | null> {
  return {
    id: key.id,
    account_id: key.accountId,
    name: key.name,
    kind: key.kind,
    prefix: key.prefix,
    last_four: key.lastFour,
    status: keyStatus(key, now),
    created_at: isoTime(key.createdAt),
    expires_at: isoTime(key.expiresAt),
    revoked_at: isoTime(key.revokedAt),
    last_used_at: isoTime(key.lastUsedAt),
  };
}
