import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { createKeyText } from '../../src/accounts/key-format.ts';
import { openDatabase } from '../../src/database/database.ts';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import { Secret } from '../../src/support/secret.ts';
import {
  chat,
  pauseEngine,
  requestLog,
  scriptedYaml,
  startService,
  until,
  type TestService,
} from '../harness.ts';
import { assertEndsWith, assertError, exchange, requestText, Wire, type WireResponse } from '../http/wire.ts';
import { Management, type Caller, type Receipt } from '../management.ts';
import { startPostgres, type TestServer } from '../support/server-process.ts';
import { SQLITE, withoutPostgres } from '../support/servers.ts';

const CHAT = 'POST /v1/chat/completions';

/** What is generated while the database is unavailable. */
const FORTY_TOKENS: Directive = { tokens: 40, tokenMs: 5 };

/** A database that a test can make unavailable. */
interface InterruptibleDatabase extends AsyncDisposable {
  env: NodeJS.ProcessEnv;
  /** Resolves when writes fail. */
  interrupt(): Promise<void>;
  restore(): Promise<void>;
}

const kinds: { name: string; skip: string | false; open: () => Promise<InterruptibleDatabase> }[] = [
  { name: 'SQLite locked by another process', skip: false, open: lockableSqlite },
  { name: 'PostgreSQL stopped', skip: withoutPostgres, open: stoppablePostgres },
];

for (const { name, skip, open } of kinds) {
  describe(`an unavailable database: ${name}`, { skip }, () => {
    let database: InterruptibleDatabase;
    before(async () => {
      database = await open();
    });
    after(() => database[Symbol.asyncDispose]());

    test('requests are refused, running ones continue but wait for settlement, and everything recovers', async () => {
      // A long wait, for busy machines.
      await using it = await LedgerCheck.start(database, 'ledger: {settleWaitMs: 120000}\n');
      const caller = await it.manager.caller();
      using requests = await it.interruptRequests(database, caller);
      const { stream, whole } = requests;
      const streamId = idOf(await stream.head());

      await until(async () => (await it.complete(caller)).status === 503);
      for (const fields of [{}, { stream: true }]) {
        const refused = await it.complete(caller, fields);
        assertError(refused, 'storage_unavailable');
        assert.equal(refused.header('retry-after'), '1');
        const line = requestLog(it.test).find(({ requestId }) => requestId === idOf(refused));
        assert.deepEqual([line?.status, line?.replica], [503, null], 'no replica was called');
      }
      assert.equal((await it.readyz()).body, '{"status":"storage_unavailable","progress":[]}');
      assert.equal((await exchange(it.test.url, requestText('GET /healthz'))).status, 200);

      let text = '';
      while (!text.includes('"finish_reason":"stop"')) text += (await stream.chunk()) ?? '';
      assert.doesNotMatch(text, /\[DONE\]/);
      assert.equal((await it.readyz()).status, 503);

      await database.restore();
      assert.match(text + (await stream.restOfBody()), /\n\ndata: \[DONE\]\n\n$/);
      const response = await whole.response();
      assert.equal(response.status, 200, response.body);
      await until(async () => (await it.readyz()).status === 200);
      assert.equal((await it.complete(caller)).status, 200);
      for (const id of [streamId, idOf(response)]) {
        const { request } = await it.receipt(id);
        assert.deepEqual(
          [request.state, request.billed, request.error_code, request.completion_tokens],
          ['settled', true, null, 40],
        );
      }
      await it.assertLedgerMatches();
    });

    test('/readyz reports it without any requests', async () => {
      await using it = await LedgerCheck.start(database, 'ledger: {leaseMs: 1500}\n');
      await database.interrupt();
      await until(async () => (await it.readyz()).status === 503);
      assert.equal((await it.readyz()).body, '{"status":"storage_unavailable","progress":[]}');
      await database.restore();
      await until(async () => (await it.readyz()).status === 200);
    });

    test('a response that waits longer than ledger.settleWaitMs ends with storage_unavailable and is free', async () => {
      await using it = await LedgerCheck.start(database, 'ledger: {settleWaitMs: 100}\n');
      const caller = await it.manager.caller();
      using requests = await it.interruptRequests(database, caller);
      const { stream, whole } = requests;
      const streamId = idOf(await stream.head());
      const refused = await whole.response();
      assertError(refused, 'storage_unavailable');
      assert.equal(assertEndsWith(await stream.restOfBody(), 'storage_unavailable'), 40);
      await database.restore();
      await until(async () => (await it.readyz()).status === 200);
      for (const id of [streamId, idOf(refused)]) {
        await until(async () => (await it.receipt(id)).request.state !== 'open');
        const { request } = await it.receipt(id);
        assert.deepEqual(
          [request.state, request.billed, Number(request.cost_usd), request.completion_tokens],
          ['settled', false, 0, 40],
        );
        assert.equal(request.error_code, 'storage_unavailable');
      }
      await it.assertLedgerMatches();
    });
  });
}

/** How long a request waits for the database at most, in milliseconds: docs/databases.md. */
const LONGEST_WAIT_MS = 15_000;

describe('a PostgreSQL server that is frozen', { skip: withoutPostgres }, () => {
  test('no request waits longer for it than the documented time', async () => {
    await using server = await startPostgres();
    const database = { env: { SLUICE_DATABASE_URL: server.url } };
    const plan = '{tokensPerMonth: 1000000}';
    await using it = await LedgerCheck.start(database, 'keys: {maxStaleMs: 300000}\n', plan);
    const { manager, test: service } = it;
    const used = await manager.caller();
    assert.equal((await it.complete(used)).status, 200);
    // The limits of a key that was not used before are read from the database, on more connections than there are.
    const unused = await Promise.all(Array.from({ length: 12 }, () => manager.caller()));
    const call = (request: string, body?: object) =>
      exchange(service.url, requestText(request, { Authorization: `Bearer ${manager.admin}` }, body));
    using _frozen = await freeze(server);
    let isLate = false;
    const limit = setTimeout(() => (isLate = true), LONGEST_WAIT_MS);
    const requests = {
      generation: it.complete(used),
      ...Object.fromEntries(
        unused.map((caller, index) => [`first generation ${index}`, it.complete(caller)]),
      ),
      'unknown key': it.complete({ key: createKeyText().reveal() }),
      keys: call('GET /api/keys'),
      'keys again': call('GET /api/keys'),
      accounts: call('GET /api/accounts'),
      'new account': call('POST /api/accounts', { name: 'New' }),
      'request log': call('GET /api/requests'),
      ...Object.fromEntries(
        ['key', 'model', 'day', 'account'].map((by) => [`usage by ${by}`, call(`GET /api/usage?by=${by}`)]),
      ),
      refusals: call('GET /api/refusals'),
    };
    const responses = await Promise.all(
      Object.entries(requests).map(async ([name, response]) => {
        const { status } = await response;
        return `${name}: ${status}${isLate ? ', late' : ''}`;
      }),
    );
    clearTimeout(limit);
    assert.deepEqual(
      responses,
      Object.keys(requests).map((name) => `${name}: 503`),
    );
  });
});

/** Suspends all processes of a server. */
async function freeze({ pid, url }: TestServer): Promise<Disposable> {
  const pids = [pid];
  {
    await using database = await openDatabase({ home: tmpdir(), url: new Secret(url) });
    const { rows } = await sql<{ pid: number }>`
      select pid from pg_stat_activity
      where pid <> pg_backend_pid() and backend_type <> 'autovacuum worker'`.execute(database.kysely);
    pids.push(...rows.map((process) => process.pid));
  }
  for (const one of pids) process.kill(one, 'SIGSTOP');
  return {
    [Symbol.dispose]() {
      for (const one of pids) process.kill(one, 'SIGCONT');
    },
  };
}

/** A service on such a database, which records responses to compare them with the ledger. */
class LedgerCheck implements AsyncDisposable {
  readonly test: TestService;
  readonly manager: Management;
  readonly #statuses = new Map<string, number>();
  readonly #owned: AsyncDisposable;

  private constructor(parts: Pick<LedgerCheck, 'test' | 'manager'>, owned: AsyncDisposable) {
    this.test = parts.test;
    this.manager = parts.manager;
    this.#owned = owned;
  }

  static async start(
    { env }: { env: NodeJS.ProcessEnv },
    settings: string,
    plan = '{}',
  ): Promise<LedgerCheck> {
    await using owned = new AsyncDisposableStack();
    const yaml = scriptedYaml({ ownProcess: true }, `plans: {open: ${plan}}\ndefaultPlan: open\n${settings}`);
    const service = owned.use(await startService(yaml, env));
    return new LedgerCheck({ test: service, manager: await Management.of(service) }, owned.move());
  }

  /**
   * Interrupts the database after a stream and another request have begun. The engine is suspended meanwhile, so that
   * both end while the database is unavailable.
   */
  async interruptRequests(database: InterruptibleDatabase, caller: Caller) {
    using _paused = pauseEngine(this.test);
    using owned = new DisposableStack();
    const stream = owned.use(await this.#send(caller, true));
    const whole = owned.use(await this.#send(caller, false));
    await until(async () => (await this.openRows()) === 2);
    await database.interrupt();
    const kept = owned.move();
    return { stream, whole, [Symbol.dispose]: () => kept.dispose() };
  }

  async #send({ key }: Caller, stream: boolean): Promise<Wire> {
    const wire = await Wire.open(this.test.url);
    const headers = { Authorization: `Bearer ${key}` };
    return wire.send(requestText(CHAT, headers, chat(scripted(FORTY_TOKENS), { stream })));
  }

  async complete({ key }: Pick<Caller, 'key'>, fields: object = {}): Promise<WireResponse> {
    const headers = { Authorization: `Bearer ${key}` };
    const response = await exchange(
      this.test.url,
      requestText(CHAT, headers, chat(scripted({ tokens: 1 }), fields)),
    );
    this.#statuses.set(idOf(response), response.status);
    return response;
  }

  readyz(): Promise<WireResponse> {
    return exchange(this.test.url, requestText('GET /readyz'));
  }

  /** Returns the number of running requests whose row is in the database. */
  async openRows(): Promise<number> {
    const { data } = await this.manager.call('GET', '/api/requests?state=open');
    return (data as unknown[]).length;
  }

  async receipt(id: string): Promise<Receipt> {
    const receipt = await this.manager.receipt(id);
    assert.ok(receipt, `${id} has no receipt`);
    return receipt;
  }

  /** Asserts that the ledger has all completed requests, that refused ones are free, and that no row is open. */
  async assertLedgerMatches(): Promise<void> {
    for (const [id, status] of this.#statuses) {
      if (status === 200) {
        const { request } = await this.receipt(id);
        assert.deepEqual([request.state, request.billed], ['settled', true]);
      } else {
        // A refused request has a row if the database wrote it but its confirmation was lost.
        const receipt = await this.manager.receipt(id);
        assert.ok(receipt === null || !receipt.request.billed);
      }
    }
    assert.equal(await this.openRows(), 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned[Symbol.asyncDispose]();
  }
}

function idOf(response: WireResponse): string {
  return response.header('x-request-id') ?? '';
}

async function lockableSqlite(): Promise<InterruptibleDatabase> {
  const location = await SQLITE.location();
  let lock: DatabaseSync | null = null;
  const release = () => {
    lock?.close();
    lock = null;
  };
  return {
    env: location.env,
    async interrupt() {
      lock = new DatabaseSync(join(location.home, 'sluice.db'), { timeout: 5000 });
      lock.exec('begin immediate');
    },
    async restore() {
      release();
    },
    async [Symbol.asyncDispose]() {
      release();
      await location[Symbol.asyncDispose]();
    },
  };
}

async function stoppablePostgres(): Promise<InterruptibleDatabase> {
  const server = await startPostgres();
  return {
    env: { SLUICE_DATABASE_URL: server.url },
    async interrupt() {
      process.kill(server.pid, 'SIGQUIT');
      // The port is closed when the last process has ended.
      await until(() => refusesConnections(server.url));
    },
    restore: () => server.start(),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function refusesConnections(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  try {
    await once(socket, 'connect');
    return false;
  } catch {
    return true;
  } finally {
    socket.destroy();
  }
}
