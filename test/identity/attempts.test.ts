import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ServiceError } from '../../src/errors.ts';
import { countAttempt, resetAttempts, type Attempt } from '../../src/identity/attempts.ts';
import { testDatabases } from '../servers.ts';

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
    test('instances share the counts of attempts', async () => {
      await using database = await kind.open();
      await using other = await database.again();
      const instances = [database, other];
      let n = 0;
      const by = { ip: '192.0.2.1', user: 'zoe@example.com' };
      assert.equal(
        await countAccepted(30, () => countAttempt(instances[n++ % 2] ?? database, 'signIn', by)),
        10,
      );
    });

    test('attempts are limited per address for all users together, and per user for all addresses together', async () => {
      await using database = await kind.open();
      let n = 0;
      const signIn = (by: { ip: string; user: string }) => countAttempt(database, 'signIn', by);
      assert.equal(
        await countAccepted(80, () => signIn({ ip: '192.0.2.1', user: `${++n}@example.com` })),
        60,
      );
      assert.equal(
        await countAccepted(80, () => signIn({ ip: `198.51.100.${++n}`, user: 'zoe@example.com' })),
        50,
      );
      await countAttempt(database, 'setUp', { ip: '192.0.2.1' });
    });

    test('an IPv6 network counts as one address', async () => {
      await using database = await kind.open();
      let n = 0;
      const from = (ip: () => string) =>
        countAccepted(25, () => countAttempt(database, 'setUp', { ip: ip() }));
      assert.equal(await from(() => `2001:db8:1:2::${(++n).toString(16)}`), 20);
      assert.equal(await from(() => '2001:db8:1:2:a:b:c:d'), 0);
      assert.equal(await from(() => '2001:db8:1:3::1'), 20);
      assert.equal(await from(() => '::1'), 20);
      assert.equal(await from(() => `::ffff:192.0.2.${++n}`), 25);
    });

    test('a count starts again after its window, and expired counters are deleted', async () => {
      await using database = await kind.open();
      const attempt: Attempt = 'confirm';
      const by = { user: 'user_1' };
      assert.equal(await countAccepted(12, () => countAttempt(database, attempt, by)), 10);
      await countAttempt(database, attempt, { user: 'user_2' });
      await database.kysely
        .updateTable('attempts')
        .set({ until: Date.now() - 1 })
        .execute();
      await countAttempt(database, attempt, by);
      const rows = await database.kysely.selectFrom('attempts').selectAll().execute();
      assert.deepEqual(
        rows.map(({ count }) => count),
        [1],
      );
      assert.equal(JSON.stringify(rows).includes('user_1'), false);
      await resetAttempts(database, attempt, by);
      assert.deepEqual(await database.kysely.selectFrom('attempts').selectAll().execute(), []);
    });
  });
}
