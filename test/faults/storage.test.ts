import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import { scripted, type Directive } from '../../src/engine/scripted/options.ts';
import { chat, requestLog, scriptedYaml, startService, until, type TestService } from '../harness.ts';
import { assertEndsWith, assertError, exchange, requestText, Wire, type WireResponse } from '../http/wire.ts';
import { Management, type Caller, type Receipt } from '../management.ts';
import { startPostgres } from '../server-process.ts';
import { testDatabases, withoutPostgres } from '../servers.ts';

const CHAT = 'POST /v1/chat/completions';

/** Long enough for the database to go, short enough to end while it is away. */
const SLOW: Directive = { tokens: 40, tokenMs: 50 };

/** A database that can go away and come back. */
interface Fickle extends AsyncDisposable {
  env: NodeJS.ProcessEnv;
  /** Resolves when nothing can be written any more. */
  leave(): Promise<void>;
  comeBack(): Promise<void>;
}

const kinds: { name: string; skip: string | false; open: () => Promise<Fickle> }[] = [
  { name: 'SQLite, whose file another process holds', skip: false, open: lockable },
  { name: 'PostgreSQL, which is stopped and started', skip: withoutPostgres, open: stoppable },
];

for (const { name, skip, open } of kinds) {
  describe(`the database away: ${name}`, { skip }, () => {
    test('no generation starts, what runs goes on, its last byte waits, and all of it heals', async () => {
      // Long enough for whatever the machine does meanwhile.
      await using it = await Serving.start(await open(), 'ledger: {settleWaitMs: 120000}\n');
      const caller = await it.manager.caller();
      using stream = await it.send(caller, SLOW, true);
      const streamId = idOf(await stream.head());
      let text = (await stream.chunk()) ?? '';
      using whole = await it.send(caller, SLOW, false);
      await until(() => it.running() === 2);
      await it.database.leave();

      await until(async () => (await it.ask(caller)).status === 503);
      for (const fields of [{}, { stream: true }]) {
        const refused = await it.ask(caller, fields);
        assertError(refused, 'storage_unavailable');
        assert.equal(refused.header('retry-after'), '1');
        const line = requestLog(it.test).find(({ requestId }) => requestId === idOf(refused));
        assert.deepEqual([line?.status, line?.replica], [503, null], 'no engine was asked');
      }
      assert.equal((await it.readyz()).body, '{"status":"storage_unavailable","progress":[]}');
      assert.equal((await exchange(it.test.url, requestText('GET /healthz'))).status, 200);

      while (!text.includes('"finish_reason":"stop"')) text += (await stream.chunk()) ?? '';
      assert.doesNotMatch(text, /\[DONE\]/);
      assert.equal((await it.readyz()).status, 503);

      await it.database.comeBack();
      assert.match(text + (await stream.restOfBody()), /\n\ndata: \[DONE\]\n\n$/);
      const answered = await whole.response();
      assert.equal(answered.status, 200, answered.body);
      await until(async () => (await it.readyz()).status === 200);
      assert.equal((await it.ask(caller)).status, 200);
      for (const id of [streamId, idOf(answered)]) {
        const { request } = await it.receipt(id);
        assert.deepEqual(
          [request.state, request.billed, request.error_code, request.completion_tokens],
          ['settled', true, null, 40],
        );
      }
      await it.assertKept();
    });

    test('is told by /readyz though nobody asks for a generation', async () => {
      await using it = await Serving.start(await open(), 'ledger: {leaseMs: 1500}\n');
      await it.database.leave();
      await until(async () => (await it.readyz()).status === 503);
      assert.equal((await it.readyz()).body, '{"status":"storage_unavailable","progress":[]}');
      await it.database.comeBack();
      await until(async () => (await it.readyz()).status === 200);
    });

    test('an answer that would wait longer than ledger.settleWaitMs ends with storage_unavailable, and costs nothing', async () => {
      await using it = await Serving.start(await open(), 'ledger: {settleWaitMs: 100}\n');
      const caller = await it.manager.caller();
      using stream = await it.send(caller, SLOW, true);
      const streamId = idOf(await stream.head());
      using whole = await it.send(caller, SLOW, false);
      await until(() => it.running() === 2);
      await it.database.leave();
      const refused = await whole.response();
      assertError(refused, 'storage_unavailable');
      assert.equal(assertEndsWith(await stream.restOfBody(), 'storage_unavailable'), 40);
      await it.database.comeBack();
      for (const id of [streamId, idOf(refused)]) {
        await until(async () => (await it.receipt(id)).request.state !== 'open');
        const { request } = await it.receipt(id);
        assert.deepEqual(
          [request.state, request.billed, Number(request.cost_usd), request.completion_tokens],
          ['settled', false, 0, 40],
        );
        assert.equal(request.error_code, 'storage_unavailable');
      }
      await it.assertKept();
    });
  });
}

/** A service on such a database. It remembers what it was asked, to compare with its ledger. */
class Serving implements AsyncDisposable {
  readonly test: TestService;
  readonly manager: Management;
  readonly database: Fickle;
  readonly #statuses = new Map<string, number>();
  readonly #owned: AsyncDisposable;

  private constructor(parts: Pick<Serving, 'test' | 'manager' | 'database'>, owned: AsyncDisposable) {
    this.test = parts.test;
    this.manager = parts.manager;
    this.database = parts.database;
    this.#owned = owned;
  }

  static async start(database: Fickle, more = ''): Promise<Serving> {
    await using owned = new AsyncDisposableStack();
    owned.use(database);
    const service = owned.use(
      await startService(scriptedYaml({}, `plans: {open: {}}\ndefaultPlan: open\n${more}`), database.env),
    );
    return new Serving({ test: service, manager: await Management.of(service), database }, owned.move());
  }

  async send({ key }: Caller, directive: Directive, stream: boolean): Promise<Wire> {
    const wire = await Wire.open(this.test.url);
    const headers = { Authorization: `Bearer ${key}` };
    return wire.send(requestText(CHAT, headers, chat(scripted(directive), { stream })));
  }

  async ask({ key }: Caller, fields: object = {}): Promise<WireResponse> {
    const headers = { Authorization: `Bearer ${key}` };
    const answer = await exchange(
      this.test.url,
      requestText(CHAT, headers, chat(scripted({ tokens: 1 }), fields)),
    );
    this.#statuses.set(idOf(answer), answer.status);
    return answer;
  }

  readyz(): Promise<WireResponse> {
    return exchange(this.test.url, requestText('GET /readyz'));
  }

  /** Generations that an engine has. */
  running(): number {
    const replicas = this.test.service.router.overview().flatMap((model) => model.replicas);
    return replicas.reduce((sum, { inFlight }) => sum + inFlight, 0);
  }

  async receipt(id: string): Promise<Receipt> {
    const receipt = await this.manager.receipt(id);
    assert.ok(receipt, `there is no receipt of ${id}`);
    return receipt;
  }

  /** Asserts that the ledger has what was answered, that nothing refused costs, and that no row is open. */
  async assertKept(): Promise<void> {
    for (const [id, status] of this.#statuses) {
      if (status === 200) {
        const { request } = await this.receipt(id);
        assert.deepEqual([request.state, request.billed], ['settled', true]);
      } else {
        // Whether a row was written of which the answer was lost, the database alone knew.
        const receipt = await this.manager.receipt(id);
        assert.ok(receipt === null || !receipt.request.billed);
      }
    }
    const { data } = await this.manager.call('GET', '/api/requests?state=open');
    assert.deepEqual(data, []);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned[Symbol.asyncDispose]();
  }
}

function idOf(answer: WireResponse): string {
  return answer.header('x-request-id') ?? '';
}

async function lockable(): Promise<Fickle> {
  const [sqlite] = testDatabases();
  assert.equal(sqlite?.name, 'SQLite');
  const place = await sqlite.place();
  let lock: DatabaseSync | null = null;
  const release = () => {
    lock?.close();
    lock = null;
  };
  return {
    env: place.env,
    async leave() {
      lock = new DatabaseSync(join(place.home, 'sluice.db'), { timeout: 5000 });
      lock.exec('begin immediate');
    },
    async comeBack() {
      release();
    },
    async [Symbol.asyncDispose]() {
      release();
      await place[Symbol.asyncDispose]();
    },
  };
}

async function stoppable(): Promise<Fickle> {
  const server = await startPostgres();
  return {
    env: { SLUICE_DATABASE_URL: server.url },
    async leave() {
      process.kill(server.pid, 'SIGQUIT');
      // Its port is closed when the last of its processes has gone.
      await until(() => refusesConnections(server.url));
    },
    comeBack: () => server.start(),
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
