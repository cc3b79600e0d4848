import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createAccount } from '../../src/accounts/accounts.ts';
import { SERVICE } from '../../src/accounts/audit.ts';
import { SETUP_TOKEN, type Schema } from '../../src/database/schema.ts';
import { expiredSignIns } from '../../src/identity/expiry.ts';
import { createInvitation } from '../../src/identity/invitations.ts';
import { createSetupLink } from '../../src/identity/setup.ts';
import { IDLE_MS, SESSION_MS } from '../../src/identity/token.ts';
import { SILENT } from '../../src/support/log.ts';
import { testDatabases, type TestDatabase } from '../support/servers.ts';

const DAY_MS = 86_400_000;

async function insertSessions(
  { kysely }: TestDatabase,
  count: number,
  times: { last_active_at: number; expires_at: number },
): Promise<void> {
  const user = { name: 'Zoe', email: 'zoe@example.com', created_at: 0, updated_at: 0 };
  await kysely
    .insertInto('users')
    .values({ id: 'user_1', ...user })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  const rows = Array.from({ length: count }, (_, n) => {
    const id = `session_${times.expires_at}_${times.last_active_at}_${n}`;
    const token = { token_hash: id.padEnd(64), user_id: 'user_1', pending: 0 };
    return { id, ...token, ip: '192.0.2.1', user_agent: 'Browser', created_at: 0, ...times };
  });
  await kysely.insertInto('sessions').values(rows).execute();
}

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    const namesIn = async ({ kysely }: TestDatabase, table: keyof Schema, column: string) => {
      const rows = await kysely.selectFrom(table).selectAll().execute();
      return rows.map((row) => (row as Record<string, unknown>)[column]);
    };

    test('sessions are deleted once they have expired, however many there are', async () => {
      await using database = await kind.open();
      const now = Date.now();
      await insertSessions(database, 600, { last_active_at: now - DAY_MS, expires_at: now });
      await insertSessions(database, 600, { last_active_at: now - IDLE_MS, expires_at: now + SESSION_MS });
      await insertSessions(database, 1, { last_active_at: now - IDLE_MS + 1, expires_at: now + 1 });
      await using expired = expiredSignIns(database, SILENT, () => now);
      await expired.run();
      assert.deepEqual(await namesIn(database, 'sessions', 'expires_at'), [now + 1]);
    });

    test('links, states of sign-ins and counters of attempts are deleted once they have expired', async () => {
      await using database = await kind.open();
      const { kysely } = database;
      const start = Date.now();
      let now = start;
      await using expired = expiredSignIns(database, SILENT, () => now);
      const row = { identifier: 'x', value: 'y', created_at: now, updated_at: now };
      await kysely
        .insertInto('verifications')
        .values([
          { id: 'old', ...row, expires_at: now },
          { id: 'new', ...row, expires_at: now + 1 },
        ])
        .execute();
      await kysely
        .insertInto('attempts')
        .values([
          { name: 'old', count: 1, until: now },
          { name: 'new', count: 1, until: now + 1 },
        ])
        .execute();
      await createSetupLink(database, 'http://localhost');
      await expired.run();
      assert.deepEqual(await namesIn(database, 'verifications', 'id'), ['new']);
      assert.deepEqual(await namesIn(database, 'attempts', 'name'), ['new']);
      assert.ok((await namesIn(database, 'settings', 'name')).includes(SETUP_TOKEN));
      const others = (await namesIn(database, 'settings', 'name')).length - 1;
      const settings = await kysely
        .selectFrom('settings')
        .selectAll()
        .where('name', '=', SETUP_TOKEN)
        .execute();
      now = Number(settings[0]?.value.slice(0, 13));
      await expired.run();
      const left = await namesIn(database, 'settings', 'name');
      assert.deepEqual([left.includes(SETUP_TOKEN), left.length], [false, others]);
    });

    test('invitations are deleted 30 days after they have expired', async () => {
      await using database = await kind.open();
      const account = await createAccount(database, { name: 'Acme' }, SERVICE);
      const values = { accountId: account.id, email: 'zoe@example.com', role: 'member' } as const;
      const { record } = await createInvitation(database, values, SERVICE);
      let now = record.expires_at + 30 * DAY_MS - 1;
      await using expired = expiredSignIns(database, SILENT, () => now);
      await expired.run();
      assert.equal((await namesIn(database, 'invitations', 'id')).length, 1);
      now += 1;
      await expired.run();
      assert.deepEqual(await namesIn(database, 'invitations', 'id'), []);
    });

    test('the next deletion retries after a failure', async () => {
      await using database = await kind.open();
      const now = Date.now();
      await insertSessions(database, 1, { last_active_at: now, expires_at: now });
      await using other = await database.again();
      const { background } = database;
      await other[Symbol.asyncDispose]();
      const failing = { background: other.background };
      await using expired = expiredSignIns(failing, SILENT, () => now);
      await expired.run();
      failing.background = background;
      await expired.run();
      assert.deepEqual(await namesIn(database, 'sessions', 'id'), []);
    });
  });
}
