import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import { chat, scriptedYaml, spawnService, until, type ServiceProcess } from '../harness.ts';
import { assertEndsWith, assertError, exchange, requestText, Wire, type WireResponse } from '../http/wire.ts';
import { Management, type Caller } from '../management.ts';
import { POSTGRES, valkeyUrl, withoutPostgres, withoutValkey } from '../support/servers.ts';

const CHAT = 'POST /v1/chat/completions';

/** Long enough that an instance keeps its lease on a busy machine. */
const LEASE_MS = 5000;

/** A request of at most 50 tokens reserves less than 0.06 USD at these prices. */
const YAML = scriptedYaml(
  { contextTokens: 400 },
  `ledger: {leaseMs: ${LEASE_MS}, checkpointMs: 20}
plans:
  open: {}
  ten: {requestsPerMinute: 10}
  single: {requestsInFlight: 1}
  once: {usdPerMonth: '0.03'}
defaultPlan: open
`,
).replace('    engine:', "    pricing: {prompt: '100', completion: '100'}\n    engine:");

/** Runs longer than any test. */
const ENDLESS: Directive = { tokens: 100_000, tokenMs: 200 };

describe('two instances', { skip: withoutPostgres || withoutValkey }, () => {
  let instances: Instances;
  before(async () => {
    instances = await Instances.start();
  });
  after(() => instances[Symbol.asyncDispose]());

  test('enforce the limits of a plan together', async () => {
    const caller = await instances.manager.caller('ten');
    const since = performance.now();
    const responses = await Promise.all(
      Array.from({ length: 60 }, (_, index) => instances.complete(index % 2, caller, { tokens: 1 })),
    );
    const admitted = responses.filter(({ status }) => status === 200).length;
    // The bucket refills by one request in six seconds.
    const refilled = Math.ceil((performance.now() - since) / 6000);
    assert.ok(admitted >= 10 && admitted <= 10 + refilled, `${admitted} of 10 and ${refilled}`);
    for (const response of responses) {
      if (response.status !== 200) assertError(response, 'requests_per_minute');
    }
  });

  test('never both settle a request, because an instance paused beyond its lease aborts its generations', async () => {
    const caller = await instances.manager.caller();
    using stream = await instances.stream(0, caller);
    await until(async () => ((await instances.receipt(stream.id))?.completion_tokens ?? 0) > 0);
    instances.signal(0, 'SIGSTOP');
    await until(async () => (await instances.receipt(stream.id))?.state === 'interrupted');
    const settled = await instances.receipt(stream.id);
    instances.signal(0, 'SIGCONT');
    assertEndsWith(await stream.wire.restOfBody(), 'storage_unavailable');
    assert.deepEqual(await instances.receipt(stream.id), settled);
    await until(async () => (await instances.complete(0, caller)).status === 200);
  });

  // The last test, because it kills an instance.
  test('settle the open requests of a killed instance and release their reservations', async (t) => {
    const single = await instances.manager.caller('single');
    const once = await instances.manager.caller('once');
    using first = await instances.stream(0, single);
    // Without max_tokens, it reserves all that is left.
    using second = await instances.stream(0, once);
    const ids = [first.id, second.id];
    // The other instance reads the checkpoints.
    for (const id of ids) {
      await until(async () => ((await instances.receipt(id))?.completion_tokens ?? 0) > 0);
    }
    assertError(await instances.complete(1, single), 'concurrent_requests');
    assertError(await instances.complete(1, once), 'insufficient_quota');

    const before = await Promise.all(ids.map((id) => instances.receipt(id)));
    const since = performance.now();
    instances.signal(0, 'SIGKILL');
    for (const id of ids) await until(async () => (await instances.receipt(id))?.state === 'interrupted');
    t.diagnostic(
      `settled ${Math.round(performance.now() - since)} ms after the kill, with a lease of ${LEASE_MS} ms`,
    );
    for (const [index, id] of ids.entries()) {
      const row = await instances.receipt(id);
      assert.deepEqual([row?.billed, Number(row?.cost_usd)], [false, 0]);
      assert.ok((row?.completion_tokens ?? 0) >= (before[index]?.completion_tokens ?? Infinity));
    }
    for (const caller of [single, once]) {
      await until(async () => (await instances.complete(1, caller)).status === 200);
    }
  });
});

/** A stream that has received its first token. */
interface StartedStream extends Disposable {
  wire: Wire;
  /** The request ID. */
  id: string;
}

/** Two processes on one PostgreSQL and one Valkey. Receipts are read from the second. */
class Instances implements AsyncDisposable {
  readonly #instances: readonly ServiceProcess[];
  readonly manager: Management;
  readonly #owned: AsyncDisposable;

  private constructor(instances: readonly ServiceProcess[], manager: Management, owned: AsyncDisposable) {
    this.#instances = instances;
    this.manager = manager;
    this.#owned = owned;
  }

  static async start(): Promise<Instances> {
    await using owned = new AsyncDisposableStack();
    const { env } = owned.use(await POSTGRES.location());
    // Each instance has its own data directory.
    const shared = {
      SLUICE_DATABASE_URL: env.SLUICE_DATABASE_URL,
      SLUICE_VALKEY_URL: await valkeyUrl(),
    };
    const instances = [
      owned.use(await spawnService(YAML, shared)),
      owned.use(await spawnService(YAML, shared)),
    ] as const;
    for (const instance of instances) await until(() => instance.stdout().includes('Ready.'));
    return new Instances(instances, await Management.ofProcess(instances[1]), owned.move());
  }

  complete(index: number, { key }: Caller, directive: Directive = { tokens: 1 }): Promise<WireResponse> {
    return exchange(this.#urlOf(index), text(key, directive, { max_tokens: 50 }));
  }

  async stream(index: number, { key }: Caller, fields: object = {}): Promise<StartedStream> {
    const wire = await Wire.open(this.#urlOf(index));
    const head = await wire.send(text(key, ENDLESS, { stream: true, ...fields })).head();
    assert.equal(head.status, 200);
    for (let received = ''; !received.includes('"delta":{"content"');) received += (await wire.chunk()) ?? '';
    return { wire, id: head.header('x-request-id') ?? '', [Symbol.dispose]: () => wire[Symbol.dispose]() };
  }

  signal(index: number, name: NodeJS.Signals): void {
    this.#instances[index]?.child.kill(name);
  }

  /** Reads the row of a request from the second instance. */
  async receipt(id: string) {
    return (await this.manager.receipt(id))?.request;
  }

  #urlOf(index: number): string {
    return this.#instances[index]?.url ?? '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned[Symbol.asyncDispose]();
  }
}

function text(key: string, directive: Directive, fields: object): string {
  return requestText(CHAT, { Authorization: `Bearer ${key}` }, chat(scripted(directive), fields));
}
