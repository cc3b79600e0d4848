import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AccountStore } from '../../src/accounts/store.ts';
import { DatabaseError } from '../../src/database/errors.ts';
import { ServiceError } from '../../src/core/errors.ts';
import { SQLITE, testDatabases } from '../support/servers.ts';

test('a database error is a 503 without details; other errors are unchanged', async () => {
  await using database = await SQLITE.open();
  const store = new AccountStore(database);
  const full = new DatabaseError('full', 'The database /home/me/sluice.db cannot grow.');
  await assert.rejects(
    store.use(() => Promise.reject(full)),
    (error) => {
      assert.ok(error instanceof ServiceError);
      assert.deepEqual([error.code, error.retryAfterMs, error.cause], ['storage_unavailable', 1000, full]);
      assert.doesNotMatch(error.message, /sluice\.db/);
      return true;
    },
  );
  for (const other of [new ServiceError('not_found', 'no'), new TypeError('a defect')]) {
    await assert.rejects(
      store.use(() => Promise.reject(other)),
      other,
    );
  }
  assert.equal(await store.use(async ({ location }) => location.kind), 'sqlite');
});

for (const kind of testDatabases()) {
  test(`on ${kind.name}, a row that another one conflicts with is a 409`, async () => {
    await using database = await kind.open();
    const store = new AccountStore(database);
    const insert = (token_hash: string, account_id: string) =>
      store.use(({ kysely }) =>
        kysely
          .insertInto('invitations')
          .values({
            id: token_hash,
            token_hash: token_hash.padEnd(64),
            account_id,
            email: `${token_hash}@b`,
            role: 'member',
            invited_by: 'cli:test',
            created_at: 0,
            expires_at: 0,
          })
          .execute(),
      );
    await insert('a', 'default');
    for (const [hash, account] of [
      ['a', 'default'],
      ['b', 'acct_0'],
    ] as const) {
      await assert.rejects(
        insert(hash, account),
        (error) => error instanceof ServiceError && error.code === 'conflict',
      );
    }
  });
}
