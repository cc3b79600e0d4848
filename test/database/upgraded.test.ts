import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { listAudit } from '../../src/accounts/audit.ts';
import { KeyStore } from '../../src/accounts/keys.ts';
import { readRequests } from '../../src/accounts/ledger/requests.ts';
import { readUsagePage } from '../../src/accounts/ledger/usage.ts';
import { listUsers } from '../../src/accounts/users.ts';
import { openDatabase } from '../../src/database/database.ts';
import { SILENT } from '../../src/support/log.ts';
import { SQLITE } from '../support/servers.ts';

const OLD = readFileSync(join(import.meta.dirname, 'upgraded-from-0011.sql'), 'utf8');
const KEY = 'sk-sluice-UAUB4hCRe0FRv5pvW1rFlOSa4CNjhfdPzZzcjgrHkNm3EZJVw';
const ACCOUNT = 'acct_d015518490d8a20c30c600cc';
const DAY = 20_785;

test('a database that an earlier version has written keeps its keys, users, requests, usage and audit log', async () => {
  await using location = await SQLITE.emptyLocation();
  {
    using old = new DatabaseSync(join(location.home, 'sluice.db'), { enableForeignKeyConstraints: false });
    old.exec(OLD);
  }
  const migrations: string[] = [];
  await using database = await openDatabase({
    ...location,
    onMigration: (name) => void migrations.push(name),
  });
  assert.equal(migrations[0], '0012_users');

  await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });
  assert.equal((await keys.authenticate(`Bearer ${KEY}`))?.accountId, ACCOUNT);

  const { items: users } = await listUsers(database);
  assert.deepEqual(
    users.map(({ name, email, operator }) => [name, email, operator]),
    [['Ada', 'ada@example.com', 1]],
  );

  const { requests } = await readRequests(database, { accountId: ACCOUNT }, { limit: 10 });
  assert.deepEqual(
    requests.map(({ client_request_id, error_code, completion_tokens }) => [
      client_request_id,
      error_code,
      completion_tokens,
    ]),
    [
      ['old-2', null, 2],
      ['old-1', null, 2],
      ['old-2', 'engine_unavailable', 0],
      ['old-1', 'engine_unavailable', 0],
    ],
  );

  const usage = await readUsagePage(database, {
    by: ['model'],
    fromDay: DAY,
    toDay: DAY + 1,
    accountId: ACCOUNT,
  });
  assert.deepEqual(
    usage.rows.map(({ model, requests: count, cost_usd }) => [model, count, cost_usd]),
    [['test/scripted', 4, '0.000038']],
  );

  const { items: audit } = await listAudit(database, {});
  assert.deepEqual(
    new Set(audit.map(({ action, actor }) => `${actor.split(':')[0]} ${action}`)),
    new Set(['cli account.create', 'cli key.create', 'user user.make_operator', 'user member.set']),
  );
});
