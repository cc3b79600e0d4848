import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import * as fc from '../support/fast-check.ts';
import {
  changeAccount,
  listPlans,
  createAccount,
  getAccount,
  listAccounts,
  findPlan,
} from '../../src/accounts/accounts.ts';
import { appendAudit, listAudit, SERVICE, type Actor } from '../../src/accounts/audit.ts';
import { MAX_PAGE } from '../../src/accounts/bounds.ts';
import { everyItem, type Page, type PageQuery } from '../../src/accounts/page.ts';
import { Plans, readLimits } from '../../src/accounts/plans.ts';
import type { PlanLimits } from '../../src/config/plan.ts';
import { testDatabases } from '../support/servers.ts';
import { refused } from './refused.ts';

const plans = new Plans({ plans: { free: {}, standard: {} }, defaultPlan: 'standard' });
const plan = (name: string) => findPlan(plans, name);
const by: Actor = { id: 'key:key_1', ip: '203.0.113.7' };

test('own limits take the place of single limits of the plan, also of its bursts', () => {
  const burst = { requests: 2, tokens: 77 };
  const limited = new Plans({ plans: { a: { tokensPerMinute: 1000, burst } }, defaultPlan: 'a' });
  const merged = limited.of(null, { burst: { requests: 5 } });
  assert.deepEqual(merged?.limits.burst, { requests: 5, tokens: 77 });
  assert.equal(merged?.limits.tokensPerMinute, 1000);
});

test('a page of accounts with large limits has fewer, and the pages are all of them', async () => {
  for (const kind of testDatabases()) {
    await using database = await kind.open();
    const models = Object.fromEntries(
      Array.from({ length: 100 }, (_, index) => [`acme/${'m'.repeat(150)}-${index}`, { tokensPerDay: 5 }]),
    );
    const by = { id: 'cli:zoe', ip: null };
    for (let count = 0; count < 60; count++) {
      const { id } = await createAccount(database, { name: `${count}` }, by);
      await changeAccount(database, id, { limits: () => ({ models }) }, by);
    }
    const first = await listAccounts(database, { limit: 1000 });
    assert.ok(first.items.length < 60 && first.nextCursor !== null, `${first.items.length}`);
    const all = await Array.fromAsync(everyItem((page) => listAccounts(database, page)));
    assert.equal(new Set(all.map(({ id }) => id)).size, 61);
  }
});

test('limits with values of another type are damaged', () => {
  for (const text of [
    '{"requestsPerMinute":"x"}',
    '{"burst":3}',
    '[]',
    '{',
    '{"usdPerDay":5}',
    '{"models":{"a/b":3}}',
  ])
    assert.equal(readLimits(text), undefined, text);
  assert.deepEqual(readLimits('{"requestsPerMinute":5}'), { requestsPerMinute: 5 });
});

test('limits of an account take the place of those of its plan, by name and by model', () => {
  const free = { tokensPerDay: 5, usdPerMonth: '1', models: { 'a/b': { tokensPerDay: 1 }, 'a/c': {} } };
  const file = { plans: { free, standard: {} }, defaultPlan: 'standard' };
  const configured = new Plans(file);
  const own = { usdPerMonth: '9', models: { 'a/b': { usdPerMonth: '2' } } };
  const merged = configured.of('free', own);
  assert.deepEqual(merged?.limits, {
    tokensPerDay: 5,
    usdPerMonth: '9',
    models: { 'a/b': { usdPerMonth: '2' }, 'a/c': {} },
  });
  // The limiter recognizes limits by their objects.
  assert.equal(configured.of('free', own), merged);
  assert.equal(configured.of('gone', own), null);
  configured.replace({ ...file, plans: { ...file.plans, free: { requestsPerMinute: 3 } } });
  assert.deepEqual(configured.of('free', own)?.limits, { requestsPerMinute: 3, ...own });
});

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    test('an account is created active, is found by ID and is in the audit log', async () => {
      await using database = await kind.open();
      const before = Date.now();
      const account = await createAccount(database, { name: ' Acme Ltd ', plan: plan('free') }, by);
      assert.match(account.id, /^acct_[0-9a-f]{24}$/);
      const { id, created_at: createdAt, ...rest } = account;
      assert.deepEqual(rest, { name: 'Acme Ltd', plan: 'free', limits: null, status: 'active' });
      assert.ok(createdAt >= before && createdAt <= Date.now());
      assert.deepEqual({ ...(await getAccount(database, id)) }, { ...account });
      const { items } = await listAudit(database, {});
      assert.deepEqual(
        items.map(({ id: _id, at: _at, ...entry }) => entry),
        [
          {
            actor: by.id,
            ip: by.ip,
            action: 'account.create',
            subject: `account:${id}`,
            account_id: id,
            detail: JSON.stringify({ name: 'Acme Ltd', plan: 'free' }),
          },
        ],
      );
    });

    test('an unknown account or plan is a 404, and an invalid name is a 400', async () => {
      await using database = await kind.open();
      await assert.rejects(getAccount(database, 'acct_0'), refused('not_found', 'id'));
      await assert.rejects(changeAccount(database, 'acct_0', { name: 'a' }, by), refused('not_found', 'id'));
      for (const name of ['', ' ', 'x'.repeat(101), 'a\nb', 'a\u001b[2J', '\ud800']) {
        await assert.rejects(createAccount(database, { name }, by), refused('invalid_value', 'name'));
        await assert.rejects(
          changeAccount(database, 'default', { name }, by),
          refused('invalid_value', 'name'),
        );
      }
      assert.throws(() => plan('gold'), refused('not_found', 'plan'));
      assert.equal(findPlan(plans, null), null);
      assert.deepEqual((await listAudit(database, {})).items, []);
    });

    test('each change is in the audit log with the previous value, unless it changes nothing', async () => {
      await using database = await kind.open();
      const { id } = await createAccount(database, { name: 'a' }, SERVICE);
      const change = { name: 'b', plan: plan('free'), status: 'suspended' } as const;
      const changed = await changeAccount(database, id, change, by);
      assert.deepEqual([changed.name, changed.plan, changed.status], ['b', 'free', 'suspended']);
      assert.deepEqual({ ...(await changeAccount(database, id, change, by)) }, { ...changed });
      assert.deepEqual({ ...(await changeAccount(database, id, {}, by)) }, { ...changed });
      assert.deepEqual({ ...(await getAccount(database, id)) }, { ...changed });
      await changeAccount(database, id, { plan: null, status: 'active' }, by);
      const { items } = await listAudit(database, { accountId: id, actor: by.id });
      const changes = items.map(({ action, detail }) => ({ action, ...JSON.parse(detail) }));
      assert.deepEqual(
        new Set(changes),
        new Set([
          { action: 'account.rename', from: 'a', to: 'b' },
          { action: 'account.set_plan', from: null, to: 'free' },
          { action: 'account.suspend', from: 'active', to: 'suspended' },
          { action: 'account.set_plan', from: 'free', to: null },
          { action: 'account.resume', from: 'suspended', to: 'active' },
        ]),
      );
      assert.equal(changes.length, 5);
    });

    test('an account that is renamed has one new access revision', async () => {
      await using database = await kind.open();
      const { id } = await createAccount(database, { name: 'a' }, SERVICE);
      const before = await database.accessRevision();
      await changeAccount(database, id, { name: 'b' }, by);
      assert.equal(await database.accessRevision(), before + 1);
    });

    test('limits of an account are changed from those that it has, and are in the audit log', async () => {
      await using database = await kind.open();
      const { id } = await createAccount(database, { name: 'a' }, SERVICE);
      const revision = async () => {
        const { access_revision: latest } = await database.kysely
          .selectFrom('accounts')
          .select('access_revision')
          .where('id', '=', id)
          .executeTakeFirstOrThrow();
        return latest;
      };
      const before = await revision();
      const edit = (values: PlanLimits) => (now: PlanLimits | null) => ({ ...now, ...values });
      await Promise.all([
        changeAccount(database, id, { limits: edit({ usdPerMonth: '10' }) }, by),
        changeAccount(database, id, { limits: edit({ tokensPerDay: 5 }) }, by),
      ]);
      const { limits } = await getAccount(database, id);
      assert.deepEqual(readLimits(limits), { usdPerMonth: '10', tokensPerDay: 5 });
      assert.ok((await revision()) > before, 'instances read the account again');
      const none = await changeAccount(database, id, { limits: () => ({}) }, by);
      assert.equal(none.limits, null);
      const { items } = await listAudit(database, { accountId: id, action: 'account.set_limits' });
      // Entries of one millisecond are in any order.
      const details = items.map(({ detail }) => JSON.parse(detail) as { from: unknown; to: unknown });
      assert.deepEqual(
        details.find(({ to }) => to === null),
        { from: { usdPerMonth: '10', tokensPerDay: 5 }, to: null },
      );
      assert.equal(items.length, 3);
    });

    test('a closed account cannot be changed, and the default account cannot be closed', async () => {
      await using database = await kind.open();
      const { id } = await createAccount(database, { name: 'a' }, SERVICE);
      const closed = await changeAccount(database, id, { status: 'closed' }, by);
      for (const change of [{ status: 'active' }, { name: 'b' }, { plan: plan('free') }] as const) {
        await assert.rejects(changeAccount(database, id, change, by), refused('conflict', 'id'));
      }
      assert.deepEqual({ ...(await changeAccount(database, id, { status: 'closed' }, by)) }, { ...closed });
      await assert.rejects(
        changeAccount(database, 'default', { status: 'closed' }, by),
        refused('conflict', 'status'),
      );
      assert.equal(
        (await changeAccount(database, 'default', { status: 'suspended' }, by)).status,
        'suspended',
      );
    });

    test('concurrent changes are applied one after another', async () => {
      await using database = await kind.open();
      // With SQLite, a second connection would block the thread that must release the lock.
      await using other = kind.name === 'SQLite' ? null : await database.again();
      const { id } = await createAccount(database, { name: '0' }, SERVICE);
      const names = Array.from({ length: 12 }, (_, index) => String(index + 1));
      await Promise.all(
        names.map((name, index) =>
          changeAccount(index % 2 === 0 ? database : (other ?? database), id, { name }, by),
        ),
      );
      const { items } = await listAudit(database, { accountId: id, action: 'account.rename' });
      const details: { from: string; to: string }[] = items.map(({ detail }) => JSON.parse(detail));
      const next = new Map<unknown, unknown>(details.map(({ from, to }) => [from, to]));
      let name: unknown = '0';
      for (let step = 0; step < names.length; step += 1) name = next.get(name);
      assert.equal(name, (await getAccount(database, id)).name);
      assert.equal(next.size, names.length);
    });

    test('accounts are counted by plan: removed plans are included, closed accounts are not', async () => {
      await using database = await kind.open();
      for (const name of ['free', 'free', 'standard']) {
        await createAccount(database, { name: 'a', plan: plan(name) }, by);
      }
      const { id } = await createAccount(database, { name: 'a', plan: plan('free') }, by);
      await changeAccount(database, id, { status: 'closed' }, by);
      const lost = new Plans({ plans: { big: { tokensPerDay: 5 }, free: {} }, defaultPlan: 'big' });
      assert.deepEqual(await listPlans(database, lost), [
        { name: 'big', isDefault: true, accounts: 1, limits: { tokensPerDay: 5 }, weight: 1 },
        { name: 'free', isDefault: false, accounts: 2, limits: {}, weight: 1 },
        { name: 'standard', isDefault: false, accounts: 1, limits: null, weight: null },
      ]);
    });

    test('a change that cannot be recorded in the audit log is not made', async () => {
      await using database = await kind.open();
      await sql`drop table audit`.execute(database.kysely);
      await assert.rejects(createAccount(database, { name: 'a' }, by));
      await assert.rejects(changeAccount(database, 'default', { name: 'b' }, by));
      const { items } = await listAccounts(database);
      assert.deepEqual(
        items.map(({ name }) => name),
        ['Default'],
      );
    });

    test('the audit log is filtered by account, actor, subject and action, and cannot be changed', async () => {
      await using database = await kind.open();
      const note = { action: 'key.update', subject: 'key:1', accountId: 'a', detail: { x: 1 } } as const;
      const notes = [
        note,
        { ...note, accountId: 'b' },
        { ...note, subject: 'key:2' },
        { ...note, action: 'key.revoke', accountId: null },
      ] as const;
      for (const one of notes) {
        await database.kysely.transaction().execute((transaction) => appendAudit(transaction, by, one));
      }
      const count = async (filter: Parameters<typeof listAudit>[1]) =>
        (await listAudit(database, filter)).items.length;
      assert.deepEqual(
        [
          await count({}),
          await count({ accountId: 'a' }),
          await count({ subject: 'key:1' }),
          await count({ action: 'key.revoke' }),
          await count({ actor: by.id, accountId: 'a', subject: 'key:2', action: 'key.update' }),
          await count({ actor: 'service' }),
        ],
        [4, 2, 3, 1, 1, 0],
      );
      const { items } = await listAudit(database, {});
      const times = items.map(({ id }) => Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16));
      const [, at = 0] = times;
      assert.equal(await count({ fromMs: at, toMs: at + 1 }), times.filter((time) => time === at).length);
      assert.equal(await count({ toMs: at }), times.filter((time) => time < at).length);
      assert.equal(await count({ fromMs: at }), times.filter((time) => time >= at).length);
      assert.equal(await count({ fromMs: at + 1, toMs: at }), 0);
      await assert.rejects(sql`update audit set actor = 'nobody'`.execute(database.kysely));
      await assert.rejects(sql`delete from audit`.execute(database.kysely));
      assert.equal(await count({ actor: by.id }), 4);
    });

    test('pages of any size add up to the whole list, even when items are added in the meantime', async () => {
      await using database = await kind.open();
      const add = (name: string) => createAccount(database, { name }, by);
      for (let index = 0; index < 7; index += 1) await add(`before ${index}`);
      const lists = [
        (page: PageQuery): Promise<Page<{ id: string }>> => listAccounts(database, page),
        (page: PageQuery): Promise<Page<{ id: string }>> => listAudit(database, {}, page),
      ];
      await fc.assert(
        fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1 }), async (sizes) => {
          for (const list of lists) {
            const whole = await Array.fromAsync(everyItem(list));
            const paged = await readInPages(list, sizes, () => add('meanwhile'));
            assert.equal(new Set(paged.map(({ id }) => id)).size, paged.length, 'none twice');
            const known = new Set(whole.map(({ id }) => id));
            assert.deepEqual(
              paged.filter(({ id }) => known.has(id)),
              whole,
            );
          }
        }),
        { numRuns: 5 },
      );
    });

    test('a page size of zero or above the maximum and an unknown cursor are a 400', async () => {
      await using database = await kind.open();
      for (const list of [
        (page: PageQuery) => listAccounts(database, page),
        (page: PageQuery) => listAudit(database, {}, page),
      ]) {
        for (const limit of [0, -1, 1.5, MAX_PAGE + 1, Number.NaN]) {
          await assert.rejects(list({ limit }), refused('invalid_value', 'limit'));
        }
        for (const cursor of ['', 'x', "' or 1=1", Buffer.from('1:a b').toString('base64url')]) {
          await assert.rejects(list({ cursor }), refused('invalid_value', 'cursor'));
        }
      }
    });
  });
}

/** Returns the items of consecutive pages with these sizes. */
async function readInPages<T>(
  list: (page: PageQuery) => Promise<Page<T>>,
  sizes: readonly number[],
  meanwhile: () => Promise<unknown>,
): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | null = null;
  for (let turn = 0; ; turn += 1) {
    const page: Page<T> = await list({ limit: sizes[turn % sizes.length], cursor });
    items.push(...page.items);
    if (page.nextCursor === null) return items;
    assert.equal(page.items.length, sizes[turn % sizes.length]);
    cursor = page.nextCursor;
    if (turn < 3) await meanwhile();
  }
}
