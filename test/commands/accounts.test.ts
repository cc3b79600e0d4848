import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { userInfo } from 'node:os';
import { createUser, setMember } from '../../src/accounts/users.ts';
import { listAudit, recordAudit, SERVICE } from '../../src/accounts/audit.ts';
import { openDatabase } from '../../src/database/database.ts';
import { folder, run } from './program.ts';

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

test('an account is created on a plan, listed, moved to other plans, suspended, resumed and closed', async (t) => {
  const home = folder(t);
  const env = { SLUICE_HOME: home };
  const created = await run(['accounts', 'create', '--name', 'acme', '--plan', 'free'], env);
  assert.equal(created.code, 0);
  assert.match(created.stdout, /^acct_[0-9a-f]{24}\n$/);
  const id = created.stdout.trim();

  for (const [args, status, plan] of [
    [['set-plan', id, 'unlimited'], 'active', 'unlimited'],
    [['set-plan', id], 'active', null],
    [['suspend', id], 'suspended', null],
    [['resume', id], 'active', null],
    [['close', id], 'closed', null],
  ] as const) {
    const changed = await run(['accounts', ...args], env);
    assert.deepEqual([changed.code, changed.stdout], [0, ''], args.join(' '));
    const [, account] = await list(env);
    assert.deepEqual([account?.id, account?.status, account?.plan], [id, status, plan], args.join(' '));
  }
  const reopened = await run(['accounts', 'resume', id], env);
  assert.deepEqual([reopened.code, reopened.stderr], [1, 'A closed account cannot be changed.\n']);

  const { stdout } = await run(['audit', 'list', '--account', id, '--json'], env);
  const entries: Record<string, unknown>[] = JSON.parse(stdout);
  assert.deepEqual(
    entries.map(({ action, actor, ip, detail }) => [action, actor, ip, detail]),
    [
      ['account.close', { from: 'active', to: 'closed' }],
      ['account.resume', { from: 'suspended', to: 'active' }],
      ['account.suspend', { from: 'active', to: 'suspended' }],
      ['account.set_plan', { from: 'unlimited', to: null }],
      ['account.set_plan', { from: 'free', to: 'unlimited' }],
      ['account.create', { name: 'acme', plan: 'free' }],
    ].map(([action, detail]) => [action, `cli:${userInfo().username}`, null, detail]),
  );
  assert.match(String(entries[0]?.at), ISO);
});

test('limits of an account are set and removed one by one', async (t) => {
  const env = { SLUICE_HOME: folder(t) };
  const set = async (...options: string[]) => {
    const changed = await run(['accounts', 'set-limits', 'default', ...options], env);
    assert.equal(changed.code, 0, changed.stderr);
    const [account] = await list(env);
    return account?.limits;
  };
  assert.deepEqual(await set('--budget', '25', '--limit', 'tokensPerDay@a/b=5'), {
    usd_per_month: '25',
    models: { 'a/b': { tokens_per_day: 5 } },
  });
  const { stdout } = await run(['accounts', 'show', 'default'], env);
  assert.match(stdout, /^Own limits: usdPerMonth 25; a\/b: tokensPerDay 5$/m);
  assert.match(
    (await run(['accounts', 'list'], env)).stdout,
    /^default +Default +\(default\), own limits +active /m,
  );
  assert.deepEqual(await set('--limit', 'tokensPerDay@a/b=none'), { usd_per_month: '25' });
  assert.equal(await set('--budget', 'none'), null);
  const many = Array.from({ length: 101 }, (_, index) => ['--limit', `tokensPerDay@a/${index}=5`]).flat();
  const refused = await run(['accounts', 'set-limits', 'default', ...many], env);
  assert.deepEqual([refused.code, refused.stderr], [1, 'Limits are for at most 100 models.\n']);
  const nothing = await run(['accounts', 'set-limits', 'default'], env);
  assert.deepEqual([nothing.code, nothing.stderr], [1, 'Give at least one --limit or --budget.\n']);
});

async function list(env: NodeJS.ProcessEnv): Promise<Record<string, unknown>[]> {
  return JSON.parse((await run(['accounts', 'list', '--json'], env)).stdout);
}

test('an account is shown with its keys and members, as text and as JSON', async (t) => {
  const home = folder(t);
  const env = { SLUICE_HOME: home };
  {
    await using database = await openDatabase({ home, url: null });
    const user = await createUser(database, { name: 'Zoë', email: 'Zoe@Example.com' }, SERVICE);
    await setMember(database, { accountId: 'default', userId: user.id, role: 'owner' }, SERVICE);
  }
  await run(['keys', 'create', '--name', 'laptop'], env);
  const shown = await run(['accounts', 'show', 'default'], env);
  assert.equal(shown.code, 0);
  assert.match(
    shown.stdout,
    /^default {2}Default\nactive, on the default plan, created .*Z\nKeys:\n {2}key_\S+ {2}laptop {2}live\n/,
  );
  assert.match(shown.stdout, /Members:\n {2}user_\S+ {2}Zoë <zoe@example\.com> {2}owner\n$/);
  const { account, keys, members } = JSON.parse(
    (await run(['accounts', 'show', 'default', '--json'], env)).stdout,
  ) as {
    account: object;
    keys: { name: string; status: string }[];
    members: { email: string; role: string }[];
  };
  assert.deepEqual(Object.keys(account), [
    'id',
    'name',
    'plan',
    'limits',
    'limits_damaged',
    'status',
    'created_at',
  ]);
  assert.deepEqual(
    keys.map(({ name, status }) => [name, status]),
    [['laptop', 'live']],
  );
  assert.deepEqual(
    members.map(({ email, role }) => [email, role]),
    [['zoe@example.com', 'owner']],
  );
});

test('invalid plans, accounts and names exit with 1 and a message', async (t) => {
  const env = { SLUICE_HOME: folder(t) };
  for (const [args, message] of [
    [
      ['create', '--name', 'a', '--plan', 'gold'],
      'The plan `gold` does not exist. Available plans: free, standard, unlimited.',
    ],
    [
      ['create', '--name', '\u001b[2J'],
      'The name of an account must be 1 to 100 characters long and must not contain control characters.',
    ],
    [['show', 'acct_0'], 'This account does not exist.'],
    [['suspend', 'acct_0'], 'This account does not exist.'],
    [['close', 'default'], 'The default account cannot be closed. Suspend it instead.'],
  ] as const) {
    const { code, stdout, stderr } = await run(['accounts', ...args], env);
    assert.deepEqual([code, stdout, stderr], [1, '', `${message}\n`]);
  }
});

test('with an invalid configuration file, an account can be suspended but not moved to a plan', async (t) => {
  const home = folder(t);
  const file = join(home, 'sluice.yaml');
  writeFileSync(file, 'models: nonsense');
  const env = { SLUICE_HOME: home, SLUICE_CONFIG: file };
  assert.equal((await run(['accounts', 'suspend', 'default'], env)).code, 0);
  const moved = await run(['accounts', 'set-plan', 'default', 'free'], env);
  assert.equal(moved.code, 1);
  assert.match(moved.stderr, /^The configuration .* is invalid:\n/);
});

test('plans are listed with their limits and accounts, including removed plans', async (t) => {
  const home = folder(t);
  const file = join(home, 'sluice.yaml');
  const plans = (names: string) => `plans: {${names}}\ndefaultPlan: big\n`;
  writeFileSync(
    file,
    plans(
      'small: {requestsPerMinute: 5, burst: {requests: 2}, models: {a/b: {usdPerMonth: "1.5"}}}, big: {}',
    ),
  );
  const env = { SLUICE_HOME: home, SLUICE_CONFIG: file };
  for (const options of [['--plan', 'small'], ['--plan', 'small'], []]) {
    assert.equal((await run(['accounts', 'create', '--name', 'a', ...options], env)).code, 0);
  }
  const closed = (await run(['accounts', 'create', '--name', 'a', '--plan', 'small'], env)).stdout.trim();
  await run(['accounts', 'close', closed], env);
  const table = await run(['plans', 'list'], env);
  assert.equal(
    table.stdout,
    [
      'PLAN           ACCOUNTS  WEIGHT  LIMITS',
      'small          2         1       requestsPerMinute 5, burst of 2 requests; a/b: usdPerMonth 1.5',
      'big (default)  2         1       none',
      '',
    ].join('\n'),
  );
  writeFileSync(file, plans('big: {}'));
  const { stdout } = await run(['plans', 'list', '--json'], env);
  assert.deepEqual(JSON.parse(stdout), [
    { name: 'big', default: true, accounts: 2, limits: {}, weight: 1 },
    { name: 'small', default: false, accounts: 2, limits: null, weight: null },
  ]);
  assert.match(
    (await run(['plans', 'list'], env)).stdout,
    /^small +2 +— +not in the configuration; requests of its accounts are refused$/m,
  );
});

test('audit list reads as many pages as its limit needs, because pages of large entries are shorter', async (t) => {
  const home = folder(t);
  {
    await using database = await openDatabase({ home, url: null });
    for (let count = 0; count < 7; count++) {
      await recordAudit(database, SERVICE, {
        action: 'account.rename',
        subject: `account:${count}`,
        detail: { name: 'n'.repeat(400_000) },
      });
    }
    assert.ok((await listAudit(database, {}, { limit: 6 })).items.length < 3);
  }
  const list = async (limit: number) => {
    const { stdout } = await run(['audit', 'list', '--limit', String(limit), '--json'], {
      SLUICE_HOME: home,
    });
    return (JSON.parse(stdout) as { subject: string }[]).map(({ subject }) => Number(subject.split(':')[1]));
  };
  assert.deepEqual(await list(6), [6, 5, 4, 3, 2, 1]);
  assert.deepEqual(await list(1000), [6, 5, 4, 3, 2, 1, 0]);
});

test('the audit log is empty in a new data directory, and --limit limits its entries', async (t) => {
  const env = { SLUICE_HOME: folder(t) };
  const none = await run(['audit', 'list'], env);
  assert.deepEqual([none.code, none.stdout, none.stderr], [0, '', 'No changes yet.\n']);
  assert.equal((await run(['audit', 'list', '--json'], env)).stdout, '[]\n');
  const other = await run(['audit', 'list', '--account', 'acct_none'], env);
  assert.equal(other.stderr, 'No matching changes.\n');
  for (const name of ['a', 'b', 'c']) await run(['accounts', 'create', '--name', name], env);
  const { stdout } = await run(['audit', 'list', '--limit', '2'], env);
  assert.match(stdout, /^AT +ACTOR +IP +ACTION +SUBJECT +DETAIL\n.*\{"name":"c","plan":null\}\n.*"b".*\n$/);
  for (const limit of ['0', '1001', 'x']) {
    assert.equal((await run(['audit', 'list', '--limit', limit], env)).code, 2);
  }
});
