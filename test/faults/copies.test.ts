import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { scripted, type Directive } from '../../src/engine/scripted/options.ts';
import { chat, scriptedYaml, spawnService, until, type ServiceProcess } from '../harness.ts';
import { assertEndsWith, assertError, exchange, requestText, Wire, type WireResponse } from '../http/wire.ts';
import { Management, type Caller } from '../management.ts';
import { testDatabases, valkeyUrl, withoutPostgres, withoutValkey } from '../servers.ts';

const CHAT = 'POST /v1/chat/completions';

/** A request of at most 50 tokens reserves less than 0.06 USD at these prices. */
const YAML = scriptedYaml(
  { contextTokens: 400 },
  `ledger: {leaseMs: 1000, checkpointMs: 20}
plans:
  open: {}
  ten: {requestsPerMinute: 10}
  single: {requestsInFlight: 1}
  once: {usdPerMonth: '0.06'}
defaultPlan: open
`,
).replace('    engine:', "    pricing: {prompt: '100', completion: '100'}\n    engine:");

/** Goes on for longer than any test. */
const ENDLESS: Directive = { tokens: 100_000, tokenMs: 50 };

describe('two copies of the service', { skip: withoutPostgres || withoutValkey }, () => {
  test('give an account one plan’s worth between them', async () => {
    await using them = await Copies.start();
    const caller = await them.manager.caller('ten');
    const since = performance.now();
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, index) => them.ask(index % 2, caller, { tokens: 1 })),
    );
    const admitted = answers.filter(({ status }) => status === 200).length;
    // The bucket refills one in six seconds.
    const refilled = Math.ceil((performance.now() - since) / 6000);
    assert.ok(admitted >= 10 && admitted <= 10 + refilled, `${admitted} of 10 and ${refilled}`);
    for (const answer of answers) if (answer.status !== 200) assertError(answer, 'requests_per_minute');
  });

  test('settle what one that is killed has left, and give back what it had set aside', async (t) => {
    await using them = await Copies.start();
    const single = await them.manager.caller('single');
    const once = await them.manager.caller('once');
    using first = await them.begin(0, single);
    using second = await them.begin(0, once, { max_tokens: 50 });
    const ids = [first.id, second.id];
    // The other copy reads the checkpoints of what this one generates.
    for (const id of ids) {
      await until(async () => ((await them.receipt(id))?.completion_tokens ?? 0) > 0);
    }
    assertError(await them.ask(1, single), 'concurrent_requests');
    assertError(await them.ask(1, once), 'insufficient_quota');

    const before = await Promise.all(ids.map((id) => them.receipt(id)));
    const since = performance.now();
    them.signal(0, 'SIGKILL');
    for (const id of ids) await until(async () => (await them.receipt(id))?.state === 'interrupted');
    t.diagnostic(
      `settled ${Math.round(performance.now() - since)} ms after the kill, with a lease of 1000 ms`,
    );
    for (const [index, id] of ids.entries()) {
      const row = await them.receipt(id);
      assert.deepEqual([row?.billed, Number(row?.cost_usd)], [false, 0]);
      assert.ok((row?.completion_tokens ?? 0) >= (before[index]?.completion_tokens ?? Infinity));
    }
    for (const caller of [single, once]) {
      await until(async () => (await them.ask(1, caller)).status === 200);
    }
  });

  test('are not both right about a request: one that was paused past its lease ends what it ran', async () => {
    await using them = await Copies.start();
    const caller = await them.manager.caller();
    using stream = await them.begin(0, caller);
    await until(async () => ((await them.receipt(stream.id))?.completion_tokens ?? 0) > 0);
    them.signal(0, 'SIGSTOP');
    await until(async () => (await them.receipt(stream.id))?.state === 'interrupted');
    const settled = await them.receipt(stream.id);
    them.signal(0, 'SIGCONT');
    assertEndsWith(await stream.wire.restOfBody(), 'storage_unavailable');
    assert.deepEqual(await them.receipt(stream.id), settled);
    await until(async () => (await them.ask(0, caller)).status === 200);
  });
});

/** A stream of which the first token has come, and the id of its request. */
interface Begun extends Disposable {
  wire: Wire;
  id: string;
}

/** Two processes on one PostgreSQL and one Valkey. The second is the one that is asked about both. */
class Copies implements AsyncDisposable {
  readonly #copies: readonly ServiceProcess[];
  readonly manager: Management;
  readonly #owned: AsyncDisposable;

  private constructor(copies: readonly ServiceProcess[], manager: Management, owned: AsyncDisposable) {
    this.#copies = copies;
    this.manager = manager;
    this.#owned = owned;
  }

  static async start(): Promise<Copies> {
    await using owned = new AsyncDisposableStack();
    const postgres = testDatabases().find(({ name }) => name === 'PostgreSQL');
    assert.ok(postgres);
    const { env } = owned.use(await postgres.place());
    // Homes of their own: they have the database and the store in common, and nothing else.
    const shared = {
      SLUICE_DATABASE_URL: env.SLUICE_DATABASE_URL,
      SLUICE_VALKEY_URL: await valkeyUrl(),
    };
    const copies = [
      owned.use(await spawnService(YAML, shared)),
      owned.use(await spawnService(YAML, shared)),
    ] as const;
    for (const copy of copies) await until(() => copy.stdout().includes('Ready.'));
    return new Copies(copies, await Management.ofProcess(copies[1]), owned.move());
  }

  ask(copy: number, { key }: Caller, directive: Directive = { tokens: 1 }): Promise<WireResponse> {
    return exchange(this.#urlOf(copy), text(key, directive, { max_tokens: 50 }));
  }

  async begin(copy: number, { key }: Caller, fields: object = {}): Promise<Begun> {
    const wire = await Wire.open(this.#urlOf(copy));
    const head = await wire.send(text(key, ENDLESS, { stream: true, ...fields })).head();
    assert.equal(head.status, 200);
    for (let said = ''; !said.includes('"delta":{"content"');) said += (await wire.chunk()) ?? '';
    return { wire, id: head.header('x-request-id') ?? '', [Symbol.dispose]: () => wire[Symbol.dispose]() };
  }

  signal(copy: number, name: NodeJS.Signals): void {
    this.#copies[copy]?.child.kill(name);
  }

  /** What the second copy knows of a request. */
  async receipt(id: string) {
    return (await this.manager.receipt(id))?.request;
  }

  #urlOf(copy: number): string {
    return this.#copies[copy]?.url ?? '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned[Symbol.asyncDispose]();
  }
}

function text(key: string, directive: Directive, fields: object): string {
  return requestText(CHAT, { Authorization: `Bearer ${key}` }, chat(scripted(directive), fields));
}
