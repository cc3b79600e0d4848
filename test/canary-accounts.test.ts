import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { RedisClient } from '@redis/client';
import { Client } from 'pg';
import { scripted, type Directive } from './support/scripted-engine/directive.ts';
import { chat, MODEL, runCli, scriptedYaml, spawnService, until, type ServiceProcess } from './harness.ts';
import { requestText, Wire } from './http/wire.ts';
import { Management, type Caller } from './management.ts';
import { testDatabases, valkeyUrl, withoutValkey } from './support/servers.ts';

/**
 * Like `canary.test.ts`, for accounts and the ledger: searches every table, every output and the limits store for keys
 * and for marked prompts and completions.
 */
const MARK = 'c4n4ry';

const LIMITS = `{requestsPerMinute: 1000, tokensPerMinute: 100000, requestsInFlight: 100, tokensPerDay: 100000, usdPerMonth: '5'}`;
const YAML = scriptedYaml(
  {},
  `plans:\n  all: ${LIMITS}\n  none: {requestsPerMinute: 1, tokensPerDay: 1}\ndefaultPlan: all\n`,
);

for (const kind of testDatabases()) {
  const shared = kind.name === 'PostgreSQL';
  describe(`prompts, completions and keys, on ${kind.name}`, { skip: shared && withoutValkey }, () => {
    test('are in no table, export, receipt, audit log, backup or counter', async () => {
      await using location = await kind.location();
      const store = shared ? await valkeyUrl() : null;
      await using service = await spawnService(YAML, {
        ...location.env,
        ...(store !== null && { SLUICE_VALKEY_URL: store }),
      });
      await until(() => service.stdout().includes('Ready.'));
      const manager = await Management.ofProcess(service);
      const caller = await manager.caller(null, {
        limits: { requests_per_minute: 500 },
        allowed_models: [MODEL],
      });
      const none = await manager.caller('none');
      const secrets = [MARK, ...[manager.admin, caller.key, none.key].map((key) => key.slice(14, -4))];
      const assertClean = (text: string | Buffer, source: string, expected: string) => {
        assert.ok(text.includes(expected), `${source} does not contain ${expected}`);
        for (const secret of secrets) assert.ok(!text.includes(secret), `${source} contains ${secret}`);
      };

      const ids = await generateMarked(service, caller, none);
      const [id = ''] = ids;
      const commands: [args: string[], expected: string][] = [
        [['ledger', 'export'], id],
        [['ledger', 'export', '--format', 'jsonl'], id],
        [['receipt', id], id],
        [['receipt', id, '--json'], id],
        [['usage', '--by', 'day,model,key', '--json'], caller.keyId],
        [['keys', 'list', '--json'], caller.keyId],
        [['accounts', 'show', caller.accountId, '--json'], caller.keyId],
        [['audit', 'list', '--json'], caller.keyId],
      ];
      for (const [args, expected] of commands) {
        const { code, stdout, stderr } = await runCli(args, service.env);
        assert.equal(code, 0, stderr);
        assertClean(stdout + stderr, args.join(' '), expected);
      }
      const endpoints: [path: string, expected: string][] = [
        ['/api/requests', id],
        [`/api/receipts/${id}`, id],
        ['/api/receipts?client_request_id=mine&account_id=' + caller.accountId, id],
        ['/api/usage?by=day,model,key', caller.keyId],
        ['/api/keys', caller.keyId],
        ['/api/audit', caller.keyId],
        // Writes the refusals to the database.
        ['/api/refusals', caller.keyId],
      ];
      for (const [path, expected] of endpoints) {
        assertClean(JSON.stringify(await manager.call('GET', path)), path, expected);
      }

      if (location.url) assertClean(await readAllTables(location.url.reveal()), 'PostgreSQL', id);
      else {
        const backup = join(location.home, 'backup.db');
        assert.equal((await runCli(['database', 'backup', backup], service.env)).code, 0);
        const files = await Promise.all(
          ['sluice.db', 'sluice.db-wal'].map((file) => readFile(join(location.home, file))),
        );
        assertClean(Buffer.concat(files), 'SQLite', id);
        assertClean(await readFile(backup), 'the backup', id);
      }
      if (store !== null) assertClean(await readAllKeys(store), 'Valkey', caller.accountId);
      assertClean(service.stdout() + service.stderr(), 'the log', id);
    });
  });
}

/** Sends marked requests with different outcomes. Resolves with the IDs of those that completed. */
async function generateMarked(service: ServiceProcess, caller: Caller, none: Caller): Promise<string[]> {
  const ids: string[] = [];
  const marked: Directive = { text: `I say ${MARK}` };
  for (const stream of [true, false]) {
    const send = async (key: string, directive: Directive, fields: object = {}) => {
      using wire = await Wire.open(service.url);
      const headers = { Authorization: `Bearer ${key}`, 'X-Client-Request-Id': 'mine' };
      const body = chat(`${MARK} ${scripted(directive)}`, {
        stream,
        user: MARK,
        metadata: { [MARK]: MARK },
        stop: [`${MARK}!`],
        ...fields,
      });
      const response = await wire.send(requestText('POST /v1/chat/completions', headers, body)).response();
      return { response, id: response.header('x-request-id') ?? '' };
    };
    const completed = await send(caller.key, marked);
    assert.ok(completed.response.body.includes(MARK), completed.response.body);
    ids.push(completed.id);
    for (const [key, status, directive, fields] of [
      [caller.key, stream ? 200 : 500, { ...marked, errorAfter: 1 }, {}],
      [caller.key, 500, { error: 'internal_error' }, {}],
      // Refusals are stored with their messages, which name the unknown model.
      [caller.key, 404, marked, { model: 'test/unknown' }],
      [caller.key, 400, marked, { temperature: MARK }],
      [none.key, 429, marked, {}],
      [`${caller.key}x`, 401, marked, {}],
    ] as const) {
      const { response } = await send(key, directive, fields);
      assert.equal(response.status, status, response.body);
    }
    using aborted = await Wire.open(service.url);
    const body = chat(`${MARK} ${scripted({ ...marked, tokenMs: 1_000_000 })}`, { stream });
    aborted.send(requestText('POST /v1/chat/completions', { Authorization: `Bearer ${caller.key}` }, body));
    if (stream) await aborted.head();
    aborted.socket.resetAndDestroy();
    await aborted.rest();
  }
  return ids;
}

/** Returns all rows of all tables, including partitions, as text. */
async function readAllTables(url: string): Promise<string> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      "select quote_ident(tablename) as name from pg_tables where schemaname = 'public'",
    );
    const texts: string[] = [];
    for (const { name } of tables) {
      const { rows } = await client.query<{ row: string }>(`select t::text as row from ${name} t`);
      texts.push(name, ...rows.map(({ row }) => row));
    }
    return texts.join('\n');
  } finally {
    await client.end();
  }
}

/** Commands that read a key, by its type. */
const READ_COMMANDS: Record<string, (key: string) => string[]> = {
  string: (key) => ['GET', key],
  hash: (key) => ['HGETALL', key],
  zset: (key) => ['ZRANGE', key, '0', '-1'],
  set: (key) => ['SMEMBERS', key],
};

/** Returns all keys and values as text. */
async function readAllKeys(url: string): Promise<string> {
  const client = RedisClient.factory()({ url });
  await client.connect();
  try {
    const texts: string[] = [];
    for await (const keys of client.scanIterator()) {
      for (const key of keys) {
        const command = READ_COMMANDS[await client.type(key)];
        assert.ok(command, `${key} has an unknown type`);
        texts.push(key, JSON.stringify(await client.sendCommand(command(key))));
      }
    }
    return texts.join('\n');
  } finally {
    client.destroy();
  }
}
