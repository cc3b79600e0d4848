import assert from 'node:assert/strict';
import { once } from 'node:events';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { InvalidArgumentError } from 'commander';
import * as fc from '../support/fast-check.ts';
import { KeyStore } from '../../src/accounts/keys.ts';
import { parseDuration } from '../../src/commands/keys.ts';
import {
  editLimits,
  LIMIT_OPTIONS,
  parseBudget,
  parseLimit,
  type LimitEdit,
} from '../../src/commands/limit-options.ts';
import { openDatabase } from '../../src/database/database.ts';
import { SILENT } from '../../src/support/log.ts';
import { collectOutput } from '../harness.ts';
import { folder, run, start } from './program.ts';

test('a running service accepts created keys and refuses revoked ones', async (t) => {
  const home = folder(t);
  const env = { SLUICE_HOME: home };
  await using database = await openDatabase({ home, url: null });
  await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });

  const created = await run(['keys', 'create', '--name', 'laptop', '--json'], env);
  assert.deepEqual([created.code, created.stderr], [0, '']);
  const key: Record<string, string> = JSON.parse(created.stdout);
  assert.deepEqual(Object.keys(key), ['id', 'key', 'name', 'created_at']);
  assert.equal(key.name, 'laptop');
  assert.match(key.created_at ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.equal((await keys.authenticate(`Bearer ${key.key}`))?.id, key.id);

  const rotated = await run(['keys', 'rotate', key.id ?? '', '--keep-previous', '7d', '--json'], env);
  const next: Record<string, string> = JSON.parse(rotated.stdout);
  await keys.refresh();
  for (const secret of [key.key, next.key])
    assert.equal((await keys.authenticate(`Bearer ${secret}`))?.id, key.id);
  assert.ok(Date.parse(next.previous_expires_at ?? '') > Date.now() + 6 * 86_400_000);
  assert.equal((await run(['keys', 'rotate', key.id ?? '', '--keep-previous', '31d'], env)).code, 2);
  await run(['keys', 'end-previous', key.id ?? ''], env);
  await keys.refresh();
  assert.equal(await keys.authenticate(`Bearer ${key.key}`), null);

  const revoked = await run(['keys', 'revoke', key.id ?? ''], env);
  assert.deepEqual([revoked.code, revoked.stdout], [0, '']);
  await keys.refresh();
  assert.equal(await keys.authenticate(`Bearer ${next.key}`), null);
});

test('a new key is the only text on standard output, and lists do not contain it', async (t) => {
  const env = { SLUICE_HOME: folder(t) };
  const args = ['keys', 'create', '--name', 'ops', '--kind', 'admin', '--expires-in', '30d'];
  const created = await run(args, env);
  assert.match(created.stdout, /^sk-sluice-[0-9A-Za-z]{49}\n$/);
  assert.match(created.stderr, /^Created key key_[0-9a-f]{24} \(ops\)\. It is shown only once:\n$/);
  const key = created.stdout.trim();

  const table = await run(['keys', 'list'], env);
  assert.match(
    table.stdout,
    /^ID +ACCOUNT +NAME +KIND +KEY +STATUS +CREATED +EXPIRES +LAST USED +CLIENT +TAGS\nkey_\S+ +default +ops +admin +sk-/,
  );
  const listed = await run(['keys', 'list', '--json'], env);
  const [record, ...more]: Record<string, unknown>[] = JSON.parse(listed.stdout);
  assert.deepEqual(more, []);
  const { id, created_at, expires_at, ...rest } = record ?? {};
  assert.deepEqual(rest, {
    account_id: 'default',
    name: 'ops',
    kind: 'admin',
    prefix: key.slice(0, 14),
    last_four: key.slice(-4),
    status: 'live',
    allowed_models: null,
    limits: null,
    strict: false,
    tags: [],
    revoked_at: null,
    last_used_at: null,
    last_used_ip: null,
    last_used_client: null,
    previous_expires_at: null,
  });
  assert.equal(
    Date.parse(String(expires_at)) - Date.parse(String(created_at)) - 30 * 86_400_000 < 60_000,
    true,
  );
  for (const { stdout } of [table, listed]) assert.equal(stdout.includes(key.slice(14, -4)), false);

  await run(['keys', 'revoke', key], env);
  assert.match((await run(['keys', 'list'], env)).stdout, new RegExp(`^${String(id)} .* revoked `, 'm'));
});

test('a new data directory is accessible only to its owner and has no keys', async (t) => {
  const home = join(folder(t), 'new');
  const listed = await run(['keys', 'list', '--json'], { SLUICE_HOME: home });
  assert.deepEqual([listed.code, listed.stdout], [0, '[]\n']);
  assert.equal(statSync(home).mode & 0o777, 0o700);
  const table = await run(['keys', 'list'], { SLUICE_HOME: home });
  assert.deepEqual([table.code, table.stdout], [0, '']);
  assert.match(table.stderr, /No API keys yet/);
});

test('unknown keys, invalid names and an unusable data directory exit with 1 and a message', async (t) => {
  const home = folder(t);
  const unknown = await run(['keys', 'revoke', 'key_0'], { SLUICE_HOME: home });
  assert.deepEqual([unknown.code, unknown.stdout], [1, '']);
  assert.match(unknown.stderr, /^No key matches/);
  const name = await run(['keys', 'create', '--name', ''], { SLUICE_HOME: home });
  assert.deepEqual([name.code, name.stdout], [1, '']);
  assert.match(
    name.stderr,
    /^The name of a key must be 1 to 100 characters long and must not contain control characters\.\n$/,
  );
  const file = join(home, 'file');
  writeFileSync(file, '');
  const unusable = await run(['keys', 'list'], { SLUICE_HOME: file });
  assert.deepEqual([unusable.code, unusable.stdout], [1, '']);
  assert.match(
    unusable.stderr,
    /^Cannot use the data directory .*file: .* Set SLUICE_HOME to another directory\.\n$/,
  );
});

test('a key can be revoked even if the configuration file is invalid', async (t) => {
  const home = folder(t);
  const file = join(home, 'sluice.yaml');
  writeFileSync(file, 'models: nonsense');
  const env = { SLUICE_HOME: home, SLUICE_CONFIG: file };
  const { stdout } = await run(['keys', 'create', '--name', 'a'], env);
  assert.equal((await run(['keys', 'revoke', stdout.trim()], env)).code, 0);
});

test('a reader that closes the pipe is not an error', async (t) => {
  using child = start(['keys', 'list', '--json'], { SLUICE_HOME: folder(t) });
  child.stdout?.destroy();
  const output = collectOutput(child);
  const [code]: unknown[] = await once(child, 'close');
  assert.deepEqual([code, output.stderr], [0, '']);
});

test('a key is created for an account with models and limits, and updated', async (t) => {
  const env = { SLUICE_HOME: folder(t) };
  const account = (await run(['accounts', 'create', '--name', 'acme'], env)).stdout.trim();
  const options = ['--models', 'a/b, c/d', '--limit', 'requestsPerMinute=60', '--budget', '25.5'];
  const moreOptions = [
    '--limit',
    'tokensPerDay@a/b=1000',
    '--limit',
    'burst.requests=5',
    '--expires-in',
    '1h',
  ];
  const created = await run(
    ['keys', 'create', '--name', 'a', '--account', account, '--json', ...options, ...moreOptions],
    env,
  );
  assert.deepEqual([created.code, created.stderr], [0, '']);
  const { id }: { id: string } = JSON.parse(created.stdout);
  await run(['keys', 'create', '--name', 'other'], env);
  assert.deepEqual(await listed(env, account, id), {
    account_id: account,
    name: 'a',
    allowed_models: ['a/b', 'c/d'],
    limits: {
      requestsPerMinute: 60,
      usdPerMonth: '25.5',
      burst: { requests: 5 },
      models: { 'a/b': { tokensPerDay: 1000 } },
    },
    expires: true,
  });

  const changes = ['--models', 'all', '--limit', 'tokensPerDay@a/b=none', '--budget', 'none'];
  const moreChanges = ['--expires-in', 'never', '--limit', 'burst.requests=none', '--name', 'b'];
  const changed = await run(['keys', 'update', id, ...changes, ...moreChanges], env);
  assert.deepEqual([changed.code, changed.stdout], [0, '']);
  assert.deepEqual(await listed(env, account, id), {
    account_id: account,
    name: 'b',
    allowed_models: null,
    limits: { requestsPerMinute: 60 },
    expires: false,
  });
  const isStrict = async () => {
    const { stdout } = await run(['keys', 'list', '--account', account, '--json'], env);
    return (JSON.parse(stdout) as { strict: boolean }[]).map(({ strict }) => strict);
  };
  assert.deepEqual(await isStrict(), [false]);
  for (const [flag, strict] of [
    ['--strict', true],
    ['--no-strict', false],
  ] as const) {
    await run(['keys', 'update', id, flag], env);
    assert.deepEqual(await isStrict(), [strict]);
  }
  assert.equal((await run(['keys', 'update', id, '--limit', 'requestsPerMinute=none'], env)).code, 0);
  assert.equal((await listed(env, account, id)).limits, null);
});

/** Lists the only key of an account. */
async function listed(env: NodeJS.ProcessEnv, account: string, id: string) {
  const { stdout } = await run(['keys', 'list', '--account', account, '--json'], env);
  const keys: Record<string, unknown>[] = JSON.parse(stdout);
  assert.deepEqual(
    keys.map((key) => key.id),
    [id],
  );
  const { account_id, name, allowed_models, limits, expires_at } = keys[0] ?? {};
  return { account_id, name, allowed_models, limits, expires: expires_at !== null };
}

test('invalid limits and budgets are refused', () => {
  const limits = ['requests=5', 'requestsPerMinute', 'requestsPerMinute=0', 'requestsPerMinute=1.5', '=5'];
  const others = ['usdPerMonth=-1', 'tokensPerDay@nobody=5', 'burst=5', 'models=5', 'burst.requests=x'];
  for (const text of [...limits, ...others]) {
    assert.throws(() => parseLimit(text), InvalidArgumentError, text);
  }
  for (const model of ['nobody', '__proto__', 'constructor', 'toString']) {
    const expected = {
      code: 'commander.invalidArgument',
      message: /^Expected the ID of a model after `@`, such as /,
    };
    assert.throws(() => parseLimit(`requestsPerMinute@${model}=5`), expected, model);
  }
  for (const text of ['1.0000001', 'much', '', '-1', '1e3']) {
    assert.throws(() => parseBudget(text), InvalidArgumentError, text);
  }
});

test('invalid options exit with 2, unknown keys and accounts with 1', async (t) => {
  const env = { SLUICE_HOME: folder(t) };
  for (const options of [
    ['--models', 'a/b,'],
    ['--limit', 'x=1'],
    ['--budget', 'much'],
  ]) {
    const { code, stdout, stderr } = await run(['keys', 'update', 'key_0', ...options], env);
    assert.deepEqual([code, stdout], [2, ''], options.join(' '));
    assert.match(stderr, /^error: option .* is invalid\. /, options.join(' '));
  }
  const unknown = await run(['keys', 'update', 'key_0', '--name', 'a'], env);
  assert.deepEqual([unknown.code, unknown.stdout], [1, '']);
  assert.match(unknown.stderr, /^No key matches/);
  const account = await run(['keys', 'create', '--name', 'a', '--account', 'acct_0'], env);
  assert.deepEqual([account.code, account.stdout, account.stderr], [1, '', 'This account does not exist.\n']);
});

test('the last edit of each limit applies, and the result is null instead of an empty object if no limits remain', () => {
  const names = LIMIT_OPTIONS.filter((name) => name !== 'usdPerMonth');
  const name = fc
    .tuple(fc.constantFrom(...names), fc.constantFrom('', '@a/b', '@c/d'))
    .map((parts) => parts.join(''));
  const edit = fc.tuple(name, fc.oneof(fc.integer({ min: 1, max: 1000 }), fc.constant('none')));
  fc.assert(
    fc.property(fc.array(edit), fc.array(edit), (first, second) => {
      const edits = (list: typeof first) =>
        list.reduce<LimitEdit[]>((before, [what, value]) => parseLimit(`${what}=${value}`, before), []);
      const limits = editLimits(editLimits(null, edits(first)), edits(second));
      const last = new Map([...first, ...second]);
      const expected = [...last]
        .filter(([, value]) => value !== 'none')
        .map(([what, value]) => `${what}=${value}`);
      assert.deepEqual(flat(limits ?? {}).sort(), expected.sort());
      assert.equal(limits === null, expected.length === 0);
    }),
  );
});

/** Converts limits to values of `--limit`. */
function flat(limits: object, above = '', model = ''): string[] {
  return Object.entries(limits).flatMap(([name, value]: [string, unknown]) => {
    if (typeof value !== 'object' || value === null) return [`${above}${name}${model}=${String(value)}`];
    if (name === 'models')
      return Object.entries(value).flatMap(([id, one]) => flat(one as object, '', `@${id}`));
    return flat(value, `${name}.`, model);
  });
}

test('durations are a number and a unit, above 0 and at most ten years', () => {
  assert.equal(parseDuration('30d'), 2_592_000_000);
  assert.deepEqual(
    ['45s', '90m', '12h', '2w'].map(parseDuration),
    [45_000, 5_400_000, 43_200_000, 1_209_600_000],
  );
  for (const text of ['', '0d', '3', 'd', '-1d', '1.5h', '3651d', '1y', ' 1d', '99999999999s', '1d ']) {
    assert.throws(() => parseDuration(text), InvalidArgumentError, text);
  }
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 3650 }), (days) => {
      assert.equal(parseDuration(`${days}d`), parseDuration(`${days * 24}h`));
    }),
  );
});
