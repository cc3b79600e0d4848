import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { sql } from 'kysely';
import { dayOf } from '../../src/accounts/ledger/days.ts';
import { csvLine } from '../../src/commands/output.ts';
import { openDatabase } from '../../src/database/database.ts';
import { awayFromMidnight, collectOutput, MODEL, until } from '../harness.ts';
import { startManagedService, type ManagedService } from '../http/api/managed-service.ts';
import { SQLITE, testDatabases } from '../support/servers.ts';
import { folder, run, start } from './program.ts';

for (const kind of testDatabases()) {
  describe(`with a running service on ${kind.name}`, () => {
    let managed: ManagedService;
    let account: string;
    const ids: string[] = [];
    before(async () => {
      await awayFromMidnight();
      managed = await startManagedService(kind);
      account = (
        await run(['accounts', 'create', '--name', 'acme', '--plan', 'free'], managed.env)
      ).stdout.trim();
      const limits = ['--limit', 'tokensPerDay=100000', '--budget', '9999.5'];
      const options = ['--name', 'a', '--account', account, ...limits];
      const key = (await run(['keys', 'create', ...options], managed.env)).stdout.trim();
      for (const clientId of ['one', 'two, "quoted"']) {
        const response = await managed.generate(key, { 'x-client-request-id': clientId });
        assert.equal(response.status, 200);
        await response.text();
        ids.push(response.headers.get('x-request-id') ?? '');
      }
    });
    after(() => managed[Symbol.asyncDispose]());

    test('usage is printed as a table, JSON and CSV, with a message if there is none', async () => {
      const today = new Date().toISOString().slice(0, 10);
      const args = ['usage', '--by', 'day,model', '--account', account];
      const { code, stdout } = await run([...args, '--json'], managed.env);
      assert.equal(code, 0);
      const [row, ...more]: Record<string, unknown>[] = JSON.parse(stdout);
      assert.deepEqual(more, []);
      assert.deepEqual([row?.day, row?.model, row?.key_id, row?.requests], [today, MODEL, null, 2]);
      const api = await managed.ok('GET', `/api/usage?by=day,model&account_id=${account}`);
      assert.deepEqual(api.data, [row]);
      const byClient = await run(['usage', '--by', 'client', '--account', account], managed.env);
      assert.match(byClient.stdout, /^CLIENT +REQUESTS .*\nNode\.js +2 /);

      const byOwner = await run(['usage', '--by', 'member,tag', '--account', account], managed.env);
      assert.match(byOwner.stdout, /^MEMBER +TAG +REQUESTS .*\n- +- +2 /);

      const byKey = await run(['usage', '--by', 'key,account', '--account', account], managed.env);
      assert.match(byKey.stdout, new RegExp(`^a \\(\\S+\\) +acme \\(${account}\\) +2 `, 'm'));

      const table = await run(args, managed.env);
      assert.match(
        table.stdout,
        /^DAY +MODEL +REQUESTS +ERRORS +ABORTED +PROMPT +CACHED +MISSED +COMPLETION +REASONING +USD /,
      );
      assert.match(
        table.stdout,
        new RegExp(`^${today} +${MODEL} +2 +0 +0 +\\d+ +\\d+ +0 +10 +0 +[\\d.]+ +[\\d.]+ `, 'm'),
      );
      const csv = await run([...args, '--csv'], managed.env);
      const [head = '', line = '', ...rest] = csv.stdout.split('\n');
      assert.deepEqual(rest, ['']);
      const cells = Object.fromEntries(head.split(',').map((name, index) => [name, line.split(',')[index]]));
      assert.deepEqual(
        [cells.day, cells.requests, cells.cost_usd, cells.key_id],
        [today, '2', row?.cost_usd, ''],
      );
      const none = await run(['usage', '--to', '2026-01-02', '--from', '2026-01-01'], managed.env);
      assert.deepEqual([none.code, none.stdout, none.stderr], [0, '', 'No usage in this period.\n']);
    });

    test('hourly usage is printed for any number of days', async () => {
      const args = ['usage', '--by', 'hour', '--account', account, '--from', '2026-01-01'];
      const { code, stdout, stderr } = await run([...args, '--json'], managed.env);
      assert.equal(code, 0, stderr);
      const rows: { requests: number }[] = JSON.parse(stdout);
      assert.equal(
        rows.reduce((sum, { requests }) => sum + requests, 0),
        2,
      );
    });

    test('days that do not exist are refused', async () => {
      for (const day of ['2026-02-30', '2026-02-30T00:00:00Z', '2025-02-29', '2026-13-01']) {
        for (const [args, expected] of [
          [['ledger', 'export', '--to', day], 2],
          [['usage', '--from', day], 1],
        ] as const) {
          const { code, stdout } = await run(args, managed.env);
          assert.deepEqual([code, stdout], [expected, ''], args.join(' '));
        }
      }
      for (const path of ['/api/requests?from=2026-02-30T00:00:00Z', '/api/usage?to=2026-02-30']) {
        assert.equal((await managed.call('GET', path)).status, 400, path);
      }
    });

    test('the ledger export has one line per request, oldest first, with the fields of the API but names', async () => {
      const args = ['ledger', 'export', '--account', account];
      const { code, stdout } = await run([...args, '--format', 'jsonl'], managed.env);
      assert.equal(code, 0);
      const rows: object[] = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      const api = await managed.ok('GET', `/api/requests?account_id=${account}`);
      const named = rows.map((row) => ({ ...row, key_name: 'a', account_name: 'acme' }));
      assert.deepEqual(named, api.data.toReversed());

      const csv = await run(args, managed.env);
      const [head = '', first = '', second = ''] = csv.stdout.split('\n');
      assert.match(
        head,
        /^id,client_request_id,.*,price_prompt,price_completion,price_input_cache_read,cost_usd,/,
      );
      assert.ok(first.startsWith(`${ids[0]},one,${account},key_`), first);
      assert.ok(second.startsWith(`${ids[1]},"two, ""quoted""",${account},`), second);
      assert.equal(first.split(',').length, head.split(',').length);
      const ofOther = await run([...args, '--client', 'curl'], managed.env);
      assert.deepEqual([ofOther.code, ofOther.stdout], [0, `${head}\n`]);
      const none = await run(
        [...args, '--from', '2026-01-01', '--to', '2026-01-02T00:00:00+02:00'],
        managed.env,
      );
      assert.deepEqual([none.code, none.stdout], [0, `${head}\n`]);
      const least = ['--min-tokens', '1', '--min-duration-ms', '1', '--min-cost-usd', '0.000000000001'];
      const filtered = await run([...args, ...least, '--note', 'truncated'], managed.env);
      assert.deepEqual([filtered.code, filtered.stdout], [0, csv.stdout]);
      const bad = await run([...args, '--min-cost-usd', '1,5'], managed.env);
      assert.equal(bad.code, 2);
      assert.match(bad.stderr, /--min-cost-usd.*decimal string, such as 0\.01/);
    });

    test('a receipt is printed as text and as JSON', async () => {
      const [id = ''] = ids;
      const { code, stdout } = await run(['receipt', id], managed.env);
      assert.equal(code, 0);
      const api = await managed.ok('GET', `/api/receipts/${id}`);
      for (const line of [
        new RegExp(
          `^Request ${id}\n  client request ID  one\n  account, key       ${account}, key_\\S+\n  client             Node\\.js`,
        ),
        new RegExp(`^  model              ${MODEL} on embedded:${MODEL}$`, 'm'),
        /^ {2}state {14}settled, 200, length$/m,
        /^ {2}stages {13}queue \d+ ms, prefill \d+ ms, decode \d+ ms$/m,
        /^ {2}tokens {13}prompt \d+ \(\d+ cached\), completion 5, counted by the engine$/m,
        /^completion +5 +1000000 +5$/m,
        new RegExp(`^total +${api.request.cost_usd.replace('.', '\\.')}$`, 'm'),
        /^Model input\n {2}messages {11}user 1$/m,
        /^ {2}sampling {11}temperature 1, top_p 1, /m,
        /^requests_per_minute +account +all +1000 +999$/m,
        new RegExp(`^usd_per_month +key +all +9999\\.5 +`, 'm'),
      ]) {
        assert.match(stdout, line);
      }
      const json = await run(['receipt', id, '--json'], managed.env);
      assert.deepEqual(JSON.parse(json.stdout), api);
      const unknown = await run(['receipt', '01a2008d-96fe-71ff-ae7d-c1f32144809f'], managed.env);
      assert.deepEqual([unknown.code, unknown.stdout], [1, '']);
      assert.match(unknown.stderr, /^No request with this ID is in the ledger\./);
    });

    test('receipts and usage have the reasoning tokens, which cost as much as other completion tokens', async () => {
      const account = (await run(['accounts', 'create', '--name', 'thinkers'], managed.env)).stdout.trim();
      const options = ['--name', 'r', '--account', account];
      const key = (await run(['keys', 'create', ...options], managed.env)).stdout.trim();
      const directive = { reasoning: 'Let me see', text: 'Hm' };
      const response = await managed.generate(key, {}, `scripted:${JSON.stringify(directive)}`);
      const { usage } = JSON.parse(await response.text());
      const reasoning: number = usage.completion_tokens_details.reasoning_tokens;
      assert.ok(reasoning > 0 && reasoning < usage.completion_tokens);

      const id = response.headers.get('x-request-id') ?? '';
      const { stdout } = await run(['receipt', id], managed.env);
      const completion = usage.completion_tokens;
      assert.ok(stdout.includes(`, completion ${completion} (${reasoning} reasoning), counted by`), stdout);
      assert.match(stdout, new RegExp(`^completion +${completion} +1000000 +${completion}$`, 'm'));
      const from = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
      for (const by of ['model', 'hour']) {
        const { stdout: json } = await run(
          ['usage', '--by', by, '--from', from, '--account', account, '--json'],
          managed.env,
        );
        const [row, ...more] = JSON.parse(json);
        assert.deepEqual([row.completion_tokens, row.reasoning_tokens, more], [completion, reasoning, []]);
      }
      const csv = await run(['ledger', 'export', '--account', account], managed.env);
      assert.match(csv.stdout, /^id,.*,completion_tokens,reasoning_tokens,usage_source,/);
      assert.ok(csv.stdout.includes(`,${completion},${reasoning},engine,`), csv.stdout);
    });

    test('control characters in the names of fields do not reach the terminal', async () => {
      const options = ['--name', 'c', '--account', account];
      const key = (await run(['keys', 'create', ...options], managed.env)).stdout.trim();
      const response = await managed.generate(key, {}, 'Hi', { 'f\u001b[2J\u009b\u007fg': 1 });
      await response.text();
      const id = response.headers.get('x-request-id') ?? '';
      const { stdout } = await run(['receipt', id], managed.env);
      assert.match(stdout, / f\[2Jg ignored/);
      const json = (await run(['receipt', id, '--json'], managed.env)).stdout;
      assert.doesNotMatch(json, /[^\P{Cc}\n]/u);
      assert.equal(JSON.parse(json).model_input.notes[0].path, 'f\u001b[2J\u009b\u007fg');
    });

    test('changes by commands apply in the running service', async () => {
      const { stdout } = await run(['keys', 'create', '--name', 'b', '--account', account], managed.env);
      const key = stdout.trim();
      assert.equal((await managed.generate(key)).status, 200);
      await run(['accounts', 'suspend', account], managed.env);
      await until(async () => (await managed.generate(key)).status === 401);
      await run(['accounts', 'resume', account], managed.env);
      const { data } = await managed.ok('GET', `/api/audit?account_id=${account}&action=account.resume`);
      assert.match(String(data[0]?.actor), /^cli:/);
    });
  });
}

test('invalid times and formats exit with 2, invalid dimensions and dates with 1', async () => {
  const env = { SLUICE_HOME: '/nonexistent' };
  for (const [args, code] of [
    [['usage', '--json', '--csv'], 2],
    [['ledger', 'export', '--from', 'yesterday'], 2],
    [['ledger', 'export', '--to', '2026-13-01'], 2],
    [['ledger', 'export', '--format', 'xml'], 2],
    [['receipt'], 2],
    [['usage', '--by', 'colour'], 1],
    [['usage', '--from', '2026-02-30'], 1],
  ] as const) {
    const ended = await run(args, env);
    assert.deepEqual([ended.code, ended.stdout], [code, ''], args.join(' '));
  }
});

test('an export ends without an error when its reader closes the pipe', async () => {
  await using database = await SQLITE.open();
  using child = start(['ledger', 'export'], database.env);
  child.stdout?.destroy();
  const output = collectOutput(child);
  const [code]: unknown[] = await once(child, 'close');
  assert.deepEqual([code, output.stderr], [0, '']);
});

test('usage of 130,000 keys is printed', async (t) => {
  const home = folder(t);
  {
    await using database = await openDatabase({ home, url: null });
    await sql`
      with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 130000)
      insert into usage_days
      select 'default', ${dayOf(Date.now())}, 'a/b', 'key_' || n, 1, 0, 0, 0, 1, 0, 1, 2, 0, 0, 0 from numbers`.execute(
      database.kysely,
    );
  }
  for (const format of [[], ['--json'], ['--csv']]) {
    const { code, stdout, stderr } = await run(['usage', '--by', 'key', ...format], { SLUICE_HOME: home });
    assert.deepEqual([code, stderr], [0, '']);
    assert.ok(stdout.split('\n').length > 130_000);
  }
});

test('a line of CSV is parsed to the same values without control characters, and no text is a formula', () => {
  const value = fc.oneof(
    fc.string(),
    fc.string({ unit: fc.constantFrom('"', ',', '\r', '\n', 'a', '\u001b', '\u009b') }),
    fc.stringMatching(/^[-=+@\t\r]=?1?$/),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map(String),
  );
  fc.assert(
    fc.property(fc.array(value, { minLength: 1 }), (given) => {
      const values = given.map((text) => text.replaceAll(/[^\P{Cc}\n\t]/gu, ''));
      const parsed = readCsvLine(csvLine(given));
      assert.deepEqual(
        parsed.map((text, index) => (text === `'${values[index]}` ? values[index] : text)),
        values,
      );
      for (const text of parsed) assert.ok(!/^[-=+@\t\r]/.test(text) || /^-[\d.]+$/.test(text), text);
    }),
  );
  assert.equal(csvLine(['-0.25', '=1+1', -3, ['-a']]), "-0.25,'=1+1,-3,'-a\n");
  assert.equal(csvLine(['\u001b[31mred', '\r=1+1', 'a\u009b2J']), "[31mred,'=1+1,a2J\n");
});

function readCsvLine(line: string): string[] {
  assert.ok(line.endsWith('\n'));
  const fields = `,${line.slice(0, -1)}`.matchAll(/,(?:"((?:[^"]|"")*)"|([^",]*))/gy);
  return [...fields].map(([, quoted, plain = '']) => quoted?.replaceAll('""', '"') ?? plain);
}
