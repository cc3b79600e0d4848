import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import { ServiceError } from '../../src/core/errors.ts';
import { Attempts, type Attempt } from '../../src/identity/attempts.ts';
import { SQLITE, testDatabases } from '../support/servers.ts';
import { startIdentityFixture } from './fixture.ts';
import { startMailServer } from './mail-server.ts';
import { startOidcProvider } from './oidc-provider.ts';

/** Makes concurrent attempts and returns how many were accepted. */
async function countAccepted(times: number, attempt: () => Promise<void>): Promise<number> {
  const results = await Promise.allSettled(Array.from({ length: times }, attempt));
  for (const result of results) {
    if (result.status === 'fulfilled') continue;
    assert.ok(result.reason instanceof ServiceError && result.reason.code === 'too_many_attempts');
    assert.ok((result.reason.retryAfterMs ?? 0) > 0);
  }
  return results.filter(({ status }) => status === 'fulfilled').length;
}

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    test('attempts are limited per address for all users together, and per user for all addresses together', async () => {
      await using database = await kind.open();
      const attempts = new Attempts(database);
      let n = 0;
      const signIn = (by: { ip: string; user: string }) => attempts.count('signIn', by);
      assert.equal(
        await countAccepted(80, () => signIn({ ip: '192.0.2.1', user: `${++n}@example.com` })),
        60,
      );
      assert.equal(
        await countAccepted(80, () => signIn({ ip: `198.51.100.${++n}`, user: 'zoe@example.com' })),
        50,
      );
      await attempts.count('setUp', { ip: '192.0.2.1' });
    });

    test('an IPv6 network counts as one address', async () => {
      await using database = await kind.open();
      const attempts = new Attempts(database);
      let n = 0;
      const from = (ip: () => string) => countAccepted(25, () => attempts.count('setUp', { ip: ip() }));
      assert.equal(await from(() => `2001:db8:1:2::${(++n).toString(16)}`), 20);
      assert.equal(await from(() => '2001:db8:1:2:a:b:c:d'), 0);
      assert.equal(await from(() => '2001:db8:1:3::1'), 20);
      assert.equal(await from(() => '::1'), 20);
      assert.equal(await from(() => `::ffff:192.0.2.${++n}`), 25);
    });

    test('a count starts again after its window, or when it is reset', async () => {
      await using database = await kind.open();
      let now = Date.now();
      const attempts = new Attempts(database, { now: () => now });
      const attempt: Attempt = 'confirm';
      const by = { user: 'user_1' };
      const count = () => countAccepted(12, () => attempts.count(attempt, by));
      assert.equal(await count(), 10);
      assert.equal(await count(), 0);
      now += 15 * 60_000;
      assert.equal(await count(), 10);
      await attempts.reset(attempt, by);
      assert.equal(await count(), 10);
    });

    test('refused attempts do not reach the database', async () => {
      await using database = await kind.open();
      const attempts = new Attempts(database);
      const by = { ip: '192.0.2.1', user: 'zoe@example.com' };
      assert.equal(await countAccepted(10, () => attempts.count('signIn', by)), 10);
      const counters = () => database.kysely.selectFrom('attempts').selectAll().orderBy('name').execute();
      const before = await counters();
      assert.equal(await countAccepted(100, () => attempts.count('signIn', by)), 0);
      assert.deepEqual(await counters(), before);
    });

    test('the number of counters in memory is bounded, and exhausted ones are kept longest', async () => {
      await using database = await kind.open();
      const attempts = new Attempts(database, { maxCounters: 50 });
      const by = { ip: '192.0.2.1' };
      assert.equal(await countAccepted(25, () => attempts.count('setUp', by)), 20);
      for (let n = 0; n < 200; n++) await attempts.count('setUp', { ip: `198.51.100.${n}` });
      assert.equal(attempts.size, 50);
      assert.equal(await countAccepted(1, () => attempts.count('setUp', by)), 0);
    });

    if (kind.name === 'SQLite') return;

    test('instances share the counts of attempts', async () => {
      await using database = await kind.open();
      await using other = await database.again();
      const instances = [new Attempts(database), new Attempts(other)];
      let n = 0;
      const by = { ip: '192.0.2.1', user: 'zoe@example.com' };
      assert.equal(await countAccepted(30, async () => instances[n++ % 2]?.count('signIn', by)), 10);
    });

    test('counters do not contain addresses', async () => {
      await using database = await kind.open();
      const attempts = new Attempts(database);
      await attempts.count('confirm', { user: 'user_2' });
      const rows = await database.kysely.selectFrom('attempts').selectAll().execute();
      assert.equal(rows.length, 1);
      assert.equal(JSON.stringify(rows).includes('user_2'), false);
      await attempts.reset('confirm', { user: 'user_2' });
      assert.deepEqual(await database.kysely.selectFrom('attempts').selectAll().execute(), []);
    });
  });
}

test('requests without a session or key do not write to SQLite, which would block the event loop', async () => {
  await using company = await startOidcProvider();
  await using mail = await startMailServer();
  await using fixture = await startIdentityFixture(SQLITE, {
    yaml: `${company.yaml()}${mail.yaml}`,
    env: { ...company.env, ...mail.env },
  });
  company.serve(`${fixture.test.url}/api/auth/callback/company`);
  await fixture.operator();
  // A write would wait for this lock for 5 seconds, and then fail with `storage_unavailable`.
  using lock = new DatabaseSync(join(fixture.test.home, 'sluice.db'), { timeout: 10_000 });
  lock.exec('begin immediate');
  const browser = fixture.browser();
  browser.cookies.set('sluice.session_token', `${'a'.repeat(32)}.b`);
  const email = 'eve@example.com';
  const password = 'not this one';
  const token = 'a'.repeat(43);
  const codes = [];
  for (const [operation, parts] of [
    ['getSession', {}],
    ['checkSetupLink', { body: { token } }],
    ['setUp', { body: { token, name: 'Eve', email, password } }],
    ['signIn', { body: { email, password } }],
    ['signIn', { body: { email: 'olga@example.com', password } }],
    ['signInSecondFactor', { body: { code: '123456', kind: 'totp' } }],
    ['signInWithProvider', { body: { provider: 'company' } }],
    ['finishProviderSignIn', { params: { provider: 'company' }, query: { state: 'a', code: 'b' } }],
    ['finishProviderSignIn', { params: { provider: 'x' } }],
    ['forgotPassword', { body: { email } }],
    ['resetPassword', { body: { token, password } }],
    ['getInvitation', { body: { token } }],
    ['acceptInvitation', { body: { token, name: 'Eve', password } }],
    ['signOut', {}],
  ] as const) {
    codes.push([operation, (await browser.call(operation, parts)).code]);
  }
  assert.deepEqual(
    codes.filter(([, code]) => code === 'storage_unavailable' || code === 'internal_error'),
    [],
  );
});
