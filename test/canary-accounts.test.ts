import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { createClient } from '@redis/client';
import { Client } from 'pg';
import { scripted, type Directive } from '../src/engine/scripted/options.ts';
import { chat, MODEL, runCli, scriptedYaml, spawnService, until, type ServiceProcess } from './harness.ts';
import { requestText, Wire } from './http/wire.ts';
import { Management, type Caller } from './management.ts';
import { testDatabases, valkeyUrl, withoutValkey } from './servers.ts';

/**
 * As `canary.test.ts`, for what accounts and the ledger keep and tell: marked prompts and answers, and keys, are looked
 * for in every table, every way out of them, and the store of the limits.
 */
const MARK = 'c4n4ry';

const LIMITS = `{requestsPerMinute: 1000, tokensPerMinute: 100000, requestsInFlight: 100, tokensPerDay: 100000, usdPerMonth: '5'}`;
const YAML = scriptedYaml(
  {},
  `plans:\n  all: ${LIMITS}\n  none: {requestsPerMinute: 1, tokensPerDay: 1}\ndefaultPlan: all\n`,
);

for (const kind of testDatabases()) {
  const apart = kind.name === 'PostgreSQL';
  describe(`marked texts, on ${kind.name}`, { skip: apart && withoutValkey }, () => {
    test('are in no table, export, receipt, audit log, backup or counter', async () => {
      await using place = await kind.place();
      const store = apart ? await valkeyUrl() : null;
      await using service = await spawnService(YAML, {
        ...place.env,
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
      const clean = (text: string | Buffer, where: string, has: string) => {
        assert.ok(text.includes(has), `${where} is not what was to be looked through`);
        for (const secret of secrets) assert.ok(!text.includes(secret), `${where} has ${secret}`);
      };

      const ids = await generateMarked(service, caller, none);
      const [id = ''] = ids;
      const outlets: [args: string[], has: string][] = [
        [['ledger', 'export'], id],
        [['ledger', 'export', '--format', 'jsonl'], id],
        [['receipt', id], id],
        [['receipt', id, '--json'], id],
        [['usage', '--by', 'day,model,key', '--json'], caller.keyId],
        [['keys', 'list', '--json'], caller.keyId],
        [['accounts', 'show', caller.accountId, '--json'], caller.keyId],
        [['audit', 'list', '--json'], caller.keyId],
      ];
      for (const [args, has] of outlets) {
        const { code, stdout, stderr } = await runCli(args, service.env);
        assert.equal(code, 0, stderr);
        clean(stdout + stderr, args.join(' '), has);
      }
      const answers: [path: string, has: string][] = [
        ['/api/requests', id],
        [`/api/receipts/${id}`, id],
        ['/api/receipts?client_request_id=mine&account_id=' + caller.accountId, id],
        ['/api/usage?by=day,model,key', caller.keyId],
        ['/api/keys', caller.keyId],
        ['/api/audit', caller.keyId],
      ];
      for (const [path, has] of answers) clean(JSON.stringify(await manager.call('GET', path)), path, has);

      if (place.url) clean(await everyRow(place.url.reveal()), 'PostgreSQL', id);
      else {
        const backup = join(place.home, 'backup.db');
        assert.equal((await runCli(['database', 'backup', backup], service.env)).code, 0);
        const files = await Promise.all(
          ['sluice.db', 'sluice.db-wal'].map((file) => readFile(join(place.home, file))),
        );
        clean(Buffer.concat(files), 'SQLite', id);
        clean(await readFile(backup), 'the backup', id);
      }
      if (store !== null) clean(await everyKey(store), 'Valkey', caller.accountId);
      clean(service.stdout() + service.stderr(), 'the log', id);
    });
  });
}

/** Asks in every way that ends differently, with marked words; the ids of what came to its end. */
async function generateMarked(service: ServiceProcess, caller: Caller, none: Caller): Promise<string[]> {
  const ids: string[] = [];
  const said: Directive = { text: `I say ${MARK}` };
  for (const stream of [true, false]) {
    const ask = async (key: string, directive: Directive, fields: object = {}) => {
      using wire = await Wire.open(service.url);
      const headers = { Authorization: `Bearer ${key}`, 'X-Client-Request-Id': 'mine' };
      const body = chat(`${MARK} ${scripted(directive)}`, {
        stream,
        user: MARK,
        metadata: { [MARK]: MARK },
        stop: [`${MARK}!`],
        ...fields,
      });
      const answer = await wire.send(requestText('POST /v1/chat/completions', headers, body)).response();
      return { answer, id: answer.header('x-request-id') ?? '' };
    };
    const well = await ask(caller.key, said);
    assert.ok(well.answer.body.includes(MARK), well.answer.body);
    ids.push(well.id);
    for (const [key, status, directive, fields] of [
      [caller.key, stream ? 200 : 500, { ...said, errorAfter: 1 }, {}],
      [caller.key, 500, { error: 'internal_error' }, {}],
      [caller.key, 404, said, { model: `test/${MARK}` }],
      [caller.key, 400, said, { temperature: MARK }],
      [none.key, 429, said, {}],
      [`${caller.key}x`, 401, said, {}],
    ] as const) {
      const { answer } = await ask(key, directive, fields);
      assert.equal(answer.status, status, answer.body);
    }
    using left = await Wire.open(service.url);
    const body = chat(`${MARK} ${scripted({ ...said, tokenMs: 1_000_000 })}`, { stream });
    left.send(requestText('POST /v1/chat/completions', { Authorization: `Bearer ${caller.key}` }, body));
    if (stream) await left.head();
    left.socket.resetAndDestroy();
    await left.rest();
  }
  return ids;
}

/** Every row of every table, partitions among them, as text. */
async function everyRow(url: string): Promise<string> {
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

/** How what a key holds is read, by its type. */
const READS: Record<string, (key: string) => string[]> = {
  string: (key) => ['GET', key],
  hash: (key) => ['HGETALL', key],
  zset: (key) => ['ZRANGE', key, '0', '-1'],
  set: (key) => ['SMEMBERS', key],
};

/** Every key with what it holds. */
async function everyKey(url: string): Promise<string> {
  const client = createClient({ url });
  await client.connect();
  try {
    const texts: string[] = [];
    for await (const keys of client.scanIterator()) {
      for (const key of keys) {
        const read = READS[await client.type(key)];
        assert.ok(read, `nobody reads ${key}`);
        texts.push(key, JSON.stringify(await client.sendCommand(read(key))));
      }
    }
    return texts.join('\n');
  } finally {
    client.destroy();
  }
}
