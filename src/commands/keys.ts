import { Option, type Command, InvalidArgumentError } from 'commander';
import {
  type KeyChange,
  keyStatus,
  readAccess,
  readTags,
  type KeyKind,
  type KeyRow,
  changeKey,
  createKey,
  endPreviousSecret,
  listKeyPage,
  MAX_PREVIOUS_MS,
  revokeKey,
  rotateKey,
} from '../accounts/key-table.ts';
import { everyItem } from '../accounts/page.ts';
import { DEFAULT_ACCOUNT_ID } from '../database/schema.ts';
import { iso, keyJson } from '../http/api/json.ts';
import { PROGRAM } from '../support/program-name.ts';
import { commandLineActor, openConfiguredDatabase } from './open.ts';
import {
  addLimitOptions,
  editLimits,
  editsOf,
  LIMITS_HELP,
  MODEL_EXAMPLE,
  type LimitFlags,
} from './limit-options.ts';
import { modelId } from '../config/plan.ts';
import { note, print, printJson, printTable, shortTime } from './output.ts';

const KEY_LIMITS_HELP = `\nThe limits of a key apply in addition to those of its account and plan.\n${LIMITS_HELP}`;

/** `sluice keys …`: changes the database directly. A running service applies the changes within a second. */
export function register(keys: Command): void {
  const createCommand = keys
    .command('create')
    .description('Create a key and print it. It cannot be shown again.')
    .requiredOption('--name <name>', 'display name')
    .option('--account <account>', 'ID of the account that the key belongs to', DEFAULT_ACCOUNT_ID)
    .addOption(
      new Option('--kind <kind>', 'caller: can use models; admin: can also use the management API')
        .choices(['caller', 'admin'] satisfies KeyKind[])
        .default('caller'),
    )
    .option(
      '--expires-in <duration>',
      'time until the key expires, such as 30d, 12h or 90m (default: never)',
      parseDuration,
    );
  addRestrictions(createCommand, 'default: all')
    .option('--json', 'print {"id","key","name","created_at"} as JSON, with an ISO 8601 time')
    .addHelpText(
      'after',
      `${KEY_LIMITS_HELP}\nExample:\n  $ ${PROGRAM} keys create --name laptop --expires-in 30d`,
    )
    .action(create);
  keys
    .command('list')
    .description(
      'List all keys, including revoked ones. Only the first and last characters of each key are shown.',
    )
    .option('--account <account>', 'only keys of this account')
    .option('--tag <tag>', 'only keys with this tag')
    .option('--json', 'print a JSON array, with ISO 8601 times')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} keys list`)
    .action(list);
  const updateCommand = keys
    .command('update')
    .description('Change the given settings of a key. Applies within a second.')
    .argument('<key>', 'key ID, the first characters of the key as shown by `keys list`, or the full key')
    .option('--name <name>', 'display name')
    .option('--expires-in <duration>', 'time from now, such as 30d, or "never"', parseExpiry);
  addRestrictions(updateCommand, '"all" for all models', '; replaces all tags; "none" removes them')
    .addHelpText(
      'after',
      `${KEY_LIMITS_HELP}\nExample:\n  $ ${PROGRAM} keys update key_0123456789abcdef01234567 --budget 25 --limit tokensPerDay=none`,
    )
    .action(update);
  keys
    .command('rotate')
    .description(
      'Give a key a new secret and print it. It cannot be shown again. The key keeps its ID, limits and usage.',
    )
    .argument('<key>', 'key ID, the first characters of the key as shown by `keys list`, or the full key')
    .option(
      '--keep-previous <duration>',
      'how long the previous secret still works, such as 7d or 12h, at most 30d (default: it stops working within a second)',
      parseGrace,
    )
    .option('--json', 'print {"id","key","name","previous_expires_at"} as JSON')
    .addHelpText(
      'after',
      `\nRotate with \`--keep-previous\`, deploy the new secret, and end the previous one with \`keys end-previous\`.\n\nExample:\n  $ ${PROGRAM} keys rotate key_0123456789abcdef01234567 --keep-previous 7d`,
    )
    .action(rotate);
  keys
    .command('end-previous')
    .description('End the previous secret of a rotated key. It stops working within a second.')
    .argument('<key>', 'key ID, the first characters of the key as shown by `keys list`, or the full key')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} keys end-previous key_0123456789abcdef01234567`)
    .action(endPrevious);
  keys
    .command('revoke')
    .description('Revoke keys. They stop working within a second.')
    .argument('<key...>', 'key ID, the first characters of the key as shown by `keys list`, or the full key')
    .addHelpText('after', `\nExample:\n  $ ${PROGRAM} keys revoke key_0123456789abcdef01234567`)
    .action(revoke);
}

/** Adds the options that `create` and `update` share. */
function addRestrictions(command: Command, models: string, clears = ''): Command {
  return addLimitOptions(command)
    .option('--models <ids>', `comma-separated IDs of the models it may use; ${models}`, parseModels)
    .option('--tag <tag>', `label to find the key again; can be repeated${clears}`, addTag)
    .option('--strict', 'refuse requests of which a part would have no effect')
    .option('--no-strict', 'ignore such parts, and list them in a header');
}

interface RestrictionFlags extends LimitFlags {
  /** Model IDs; empty for all models. */
  models?: string[];
  /** Empty: none. */
  tag?: string[];
  /** Absent: unchanged. */
  strict?: boolean;
}

interface CreateFlags extends RestrictionFlags {
  name: string;
  account: string;
  kind: KeyKind;
  expiresIn?: number;
  json?: true;
}

async function create(flags: CreateFlags): Promise<void> {
  await using database = await openConfiguredDatabase();
  const settings = {
    name: flags.name,
    kind: flags.kind,
    accountId: flags.account,
    expiresAt: flags.expiresIn === undefined ? null : Date.now() + flags.expiresIn,
    allowedModels: toAllowedModels(flags.models) ?? null,
    limits: editLimits(null, editsOf(flags)),
    strict: flags.strict,
    tags: flags.tag,
  };
  const { key, record } = await createKey(database, settings, commandLineActor());
  if (flags.json) {
    const created = iso(record.created_at);
    printJson({ id: record.id, key: key.reveal(), name: record.name, created_at: created });
    return;
  }
  note(`Created key ${record.id} (${record.name}). It is shown only once:`);
  print(key.reveal());
}

async function list(flags: { account?: string; tag?: string; json?: true }): Promise<void> {
  await using database = await openConfiguredDatabase();
  const filter = { accountId: flags.account };
  const all = await Array.fromAsync(everyItem((page) => listKeyPage(database, filter, page)));
  const { tag } = flags;
  const keys = tag === undefined ? all : all.filter(({ tags }) => readTags(tags).includes(tag));
  const now = Date.now();
  if (flags.json) {
    printJson(keys.map(asJson));
  } else if (all.length > 0 && keys.length === 0) {
    note('No key has this tag.');
  } else if (keys.length === 0) {
    note(`No API keys yet. Create one: ${PROGRAM} keys create --name <name>`);
  } else {
    printTable(
      keys.map((key) => ({
        ID: key.id,
        ACCOUNT: key.account_id,
        NAME: key.name,
        KIND: key.kind,
        KEY: `${key.prefix}…${key.last_four}`,
        STATUS: keyStatus(key, now),
        CREATED: shortTime(key.created_at),
        EXPIRES: shortTime(key.expires_at),
        'LAST USED': shortTime(key.last_used_at),
        CLIENT: key.last_used_client ?? '-',
        TAGS: readTags(key.tags).join(', '),
      })),
    );
  }
}

interface UpdateFlags extends RestrictionFlags {
  name?: string;
  /** Milliseconds from now; Infinity if the key never expires. */
  expiresIn?: number;
}

async function update(keyOrId: string, flags: UpdateFlags): Promise<void> {
  await using database = await openConfiguredDatabase();
  const { name, models, expiresIn, strict, tag } = flags;
  const expiresAt = expiresIn === Infinity ? null : expiresIn && Date.now() + expiresIn;
  const edits = editsOf(flags);
  const changes = (key: KeyRow): KeyChange => ({
    name,
    expiresAt,
    allowedModels: toAllowedModels(models),
    limits: edits.length === 0 ? undefined : editLimits(readAccess(key)?.limits ?? null, edits),
    strict,
    tags: tag,
  });
  const key = await changeKey(database, keyOrId, changes, commandLineActor());
  if (key === null) return failUnknownKey();
  note(`Updated key ${key.id} (${key.name}).`);
}

async function rotate(keyOrId: string, flags: { keepPrevious?: number; json?: true }): Promise<void> {
  await using database = await openConfiguredDatabase();
  const previousExpiresAt = flags.keepPrevious === undefined ? null : Date.now() + flags.keepPrevious;
  const rotated = await rotateKey(database, keyOrId, previousExpiresAt, commandLineActor());
  if (rotated === null) return failUnknownKey();
  const { key, record } = rotated;
  if (flags.json) {
    const expires = iso(record.previous_expires_at);
    return printJson({ id: record.id, key: key.reveal(), name: record.name, previous_expires_at: expires });
  }
  const until = record.previous_expires_at;
  note(
    `Rotated key ${record.id} (${record.name}). The previous secret ${until === null ? 'no longer works' : `works until ${shortTime(until)}`}. The new one is shown only once:`,
  );
  print(key.reveal());
}

async function endPrevious(keyOrId: string): Promise<void> {
  await using database = await openConfiguredDatabase();
  const key = await endPreviousSecret(database, keyOrId, commandLineActor());
  if (key === null) return failUnknownKey();
  note(`Ended the previous secret of key ${key.id} (${key.name}).`);
}

async function revoke(keysOrIds: readonly string[]): Promise<void> {
  await using database = await openConfiguredDatabase();
  for (const keyOrId of keysOrIds) {
    const key = await revokeKey(database, keyOrId, commandLineActor());
    if (key === null) failUnknownKey();
    else note(`Revoked key ${key.id} (${key.name}).`);
  }
}

function failUnknownKey(): void {
  note(`No key matches this ID, prefix or key. Run \`${PROGRAM} keys list\` to see all keys.`);
  process.exitCode = 1;
}

function toAllowedModels(models: string[] | undefined): string[] | null | undefined {
  return models?.length === 0 ? null : models;
}

/** Unlike the API, with limits as in the configuration. */
function asJson(key: KeyRow): Record<string, unknown> {
  const { purpose: _, previous: __, ...json } = keyJson(key);
  return {
    ...json,
    limits: readAccess(key)?.limits ?? null,
    previous_expires_at: iso(key.previous_expires_at),
  };
}

/** Appends a tag, as commander expects of a repeatable option. `none` removes all. */
function addTag(tag: string, before: readonly string[] = []): string[] {
  return tag === 'none' ? [] : [...before, tag];
}

const UNITS_MS: ReadonlyMap<string, number> = new Map([
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
  ['w', 604_800_000],
]);

/** Ten years, in milliseconds. */
const MAX_MS = 3650 * 86_400_000;

/** Converts `30d`, `12h`, `90m`, `45s` or `2w` to milliseconds, up to ten years. Throws commander's error. */
export function parseDuration(text: string): number {
  const [, digits = '', unit = ''] = /^(\d{1,9})([smhdw])$/.exec(text) ?? [];
  const duration = Number(digits) * (UNITS_MS.get(unit) ?? 0);
  if (duration <= 0 || duration > MAX_MS) {
    throw new InvalidArgumentError('Expected a duration such as 30d, 12h, 90m, 45s or 2w, at most 3650d.');
  }
  return duration;
}

/** Like `parseDuration`, at most `MAX_PREVIOUS_MS`. */
function parseGrace(text: string): number {
  const duration = parseDuration(text);
  if (duration > MAX_PREVIOUS_MS) throw new InvalidArgumentError('Expected a duration of at most 30d.');
  return duration;
}

/**
 * Like `parseDuration`, but also accepts `never`. Returns Infinity for it, because commander turns null into an empty
 * string.
 */
export function parseExpiry(text: string): number {
  return text === 'never' ? Infinity : parseDuration(text);
}

/**
 * Parses comma-separated model IDs. Returns an empty list for `all`, because commander turns null into an empty string.
 */
export function parseModels(text: string): string[] {
  if (text === 'all') return [];
  const ids = text.split(',').map((id) => id.trim());
  if (ids.every((id) => modelId.safeParse(id).success)) return ids;
  throw new InvalidArgumentError(`Expected model IDs such as ${MODEL_EXAMPLE}.`);
}
