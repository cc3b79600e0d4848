import assert from 'node:assert/strict';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { backupSqlite } from '../../src/database/backup.ts';
import { scripted } from '../support/scripted-engine/directive.ts';
import { chat, runCli, scriptedYaml, startService, until, type TestService } from '../harness.ts';
import { assertError, exchange, requestText } from '../http/wire.ts';
import { Management } from '../management.ts';
import { testDatabases, type TestLocation } from '../support/servers.ts';

const [sqlite] = testDatabases();
const YAML = scriptedYaml(
  {},
  'plans: {open: {}}\ndefaultPlan: open\nledger: {leaseMs: 600, settleWaitMs: 100}\n',
);
const FILES = ['sluice.db', 'sluice.db-wal', 'sluice.db-shm'];

const start = ({ env }: TestLocation) => startService(YAML, env);

function complete({ url, key }: TestService) {
  const body = chat(scripted({ tokens: 1 }));
  return exchange(url, requestText('POST /v1/chat/completions', { Authorization: `Bearer ${key}` }, body));
}

const isReady =
  ({ url }: TestService) =>
  async () =>
    (await fetch(`${url}/readyz`)).status === 200;
const isUnready =
  ({ url }: TestService) =>
  async () =>
    (await fetch(`${url}/readyz`)).status === 503;

async function move(from: string, to: string, files: readonly string[]): Promise<void> {
  await mkdir(to, { recursive: true });
  for (const file of files) await rename(join(from, file), join(to, file));
}

for (const files of [FILES, FILES.slice(0, 1), FILES.slice(0, 2), ['sluice.db-wal']]) {
  test(`the service is unready while ${files.join(', ')} is moved away, and recovers when it is moved back`, async () => {
    await using location = await sqlite!.location();
    await using service = await start(location);
    const manager = await Management.of(service);
    assert.equal((await complete(service)).status, 200);
    // Opens the connection for reports, which would create a new write-ahead log while the files are moved.
    await manager.call('GET', '/api/requests');
    const away = join(location.home, 'away');
    await move(location.home, away, files);
    await until(isUnready(service));
    assertError(await complete(service), 'storage_unavailable');
    const reason =
      /^The file .*sluice\.db.* was deleted or moved while it was in use\. Move the same file back/;
    // Admin keys still work, so that the Operations page can show the reason.
    const health = await manager.call('GET', '/api/health');
    assert.match(String((health.ledger as { reason: unknown }).reason), reason);
    assert.match(service.log(), /"reason":"The file .* was deleted or moved/);
    const doctor = await runCli(['doctor', '--json'], service.env);
    assert.equal(doctor.code, 1);
    assert.match(doctor.stdout, /"found": ?"The file .* was deleted or moved/);
    const copy = await runCli(['database', 'backup', join(location.home, 'copy.db')], service.env);
    assert.equal(copy.code, 1);
    assert.match(copy.stderr, /was deleted or moved while it was in use/);
    const command = await runCli(['keys', 'create', '--name', 'lost'], service.env);
    assert.equal(command.code, 1, 'no second database is created');
    assert.match(command.stderr, /was deleted or moved while it was in use/);

    await move(away, location.home, files);
    await until(isReady(service));
    assert.equal((await complete(service)).status, 200);
    const { data } = await manager.call('GET', '/api/requests');
    assert.equal((data as unknown[]).length, 2);
  });
}

test('while the database is missing, reports and changes are refused, and after keys.maxStaleMs everything else is refused too', async () => {
  await using location = await sqlite!.location();
  await using service = await start(location);
  const manager = await Management.of(service);
  const report = () =>
    fetch(`${service.url}/api/usage`, { headers: { authorization: `Bearer ${manager.admin}` } });
  assert.equal((await report()).status, 200);
  await using folder = await sqlite!.location();
  await move(location.home, folder.home, FILES);
  await until(isUnready(service));
  const refused = await report();
  assert.equal(refused.status, 503);
  assert.match(await refused.text(), /The database is currently unavailable/, 'the key is still accepted');
  const { keys } = service.service;
  await assert.rejects(keys.create({ name: 'lost' }), { fault: 'replaced' });
  await until(() => !keys.fresh);
  assertError(await complete(service), 'storage_unavailable');
  await move(folder.home, location.home, FILES);
  await until(isReady(service));
  const listed: { name: string }[] = JSON.parse(
    (await runCli(['keys', 'list', '--json'], service.env)).stdout,
  );
  assert.deepEqual(
    listed.map(({ name }) => name),
    ['test', 'admin'],
  );
});

test('a backup that replaces deleted files is used after a restart', async () => {
  await using location = await sqlite!.location();
  const path = join(location.home, 'sluice.db');
  const backup = join(location.home, 'backup.db');
  let key: string;
  {
    await using service = await start(location);
    key = service.key;
    const manager = await Management.of(service);
    assert.equal((await complete(service)).status, 200);
    await backupSqlite(path, backup);
    assert.equal((await complete(service)).status, 200);
    for (const file of FILES) await rm(join(location.home, file));
    await until(isUnready(service));
    await rename(backup, path);
    const replaced = /The file .*sluice\.db was replaced while it was in use/;
    await until(async () => replaced.test(JSON.stringify(await manager.call('GET', '/api/health'))));
    assertError(await complete(service), 'storage_unavailable');
  }
  await using service = await start(location);
  assert.equal((await complete({ ...service, key })).status, 200, 'the key is in the backup');
  const manager = await Management.of(service);
  const { data } = await manager.call('GET', '/api/requests');
  assert.equal((data as unknown[]).length, 2, 'one request before the backup and one after the restart');
});

test('rows that were written before the write-ahead log was deleted survive a restart', async () => {
  await using location = await sqlite!.location();
  {
    await using service = await start(location);
    assert.equal((await complete(service)).status, 200);
    await rm(join(location.home, 'sluice.db-wal'));
    await until(isUnready(service));
    assertError(await complete(service), 'storage_unavailable');
  }
  await using service = await start(location);
  const manager = await Management.of(service);
  const { data } = await manager.call('GET', '/api/requests');
  assert.equal((data as unknown[]).length, 1);
});
