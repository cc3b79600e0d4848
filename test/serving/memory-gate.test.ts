import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import type { LoadCause, MemoryGrant } from '../../src/serving/embedded-replica.ts';
import { SILENT } from '../../src/support/log.ts';
import { MemoryGate, type GateModel } from '../../src/serving/memory-gate.ts';

const MIN_STAY_MS = 1000;

/** A gate for a machine with this memory, whose clock the test sets. */
class Machine {
  nowMs = 0;
  readonly models: TestModel[] = [];
  readonly gate: MemoryGate;

  constructor(bytes: number, maxBytes: number | null = null) {
    this.gate = new MemoryGate({
      maxBytes,
      minStayMs: MIN_STAY_MS,
      availableBytes: () => bytes - this.models.reduce((sum, { usedBytes }) => sum + usedBytes, 0),
      now: () => this.nowMs,
      log: SILENT,
    });
  }

  model(id: string, bytes: number, changes: Partial<TestModel> = {}): TestModel {
    const model = Object.assign(new TestModel(this, id, bytes), changes);
    this.models.push(model);
    this.gate.add(model);
    return model;
  }

  /** Returns the models with an engine. */
  get loaded(): string {
    return this.models
      .filter(({ reservedBytes }) => reservedBytes > 0)
      .map(({ id }) => id)
      .join('');
  }

  /** Lets the gate look for memory until nothing more changes. */
  async settle(): Promise<void> {
    for (let step = 0; step < 10; step++) {
      this.gate.tick();
      // oxlint-disable-next-line no-await-in-loop
      await turn();
    }
  }
}

class TestModel implements GateModel {
  readonly id: string;
  readonly #machine: Machine;
  readonly #bytes: number;
  keep = false;
  busy = false;
  lastUsedMs = 0;
  reservedBytes = 0;
  /** Part of the memory that the system counts as used. */
  share = 1;
  leaving = false;
  waitsFor = '';
  outcome = '';
  /** Whether its engine exits when it is told to. */
  exits = Promise.withResolvers<void>();
  planBytes: number | null = null;
  stop = new AbortController();

  constructor(machine: Machine, id: string, bytes: number) {
    this.id = id;
    this.#machine = machine;
    this.#bytes = bytes;
    this.exits.resolve();
  }

  get idleMs(): number {
    return this.#machine.nowMs - this.lastUsedMs;
  }

  get pending(): boolean {
    return this.reservedBytes === 0;
  }

  get usedBytes(): number {
    return this.reservedBytes * this.share;
  }

  // oxlint-disable-next-line typescript/require-await
  async footprint() {
    const bytes = this.#bytes;
    return {
      minBytes: bytes,
      usefulBytes: bytes,
      explanation: '',
      inMachineMemory: true,
      planned: (availableBytes: number) => ({
        bytes: Math.max(bytes, Math.min(availableBytes, bytes * 2)),
        contextTokens: 0,
      }),
    };
  }

  async sleep(): Promise<void> {
    assert.ok(!this.busy && !this.keep && this.#grant === null && !this.leaving, this.id);
    this.leaving = true;
    await this.exits.promise;
    this.leaving = false;
    this.reservedBytes = 0;
  }

  /** Asks for memory. Keeps the grant open until `loaded`. */
  request(cause: LoadCause = 'request'): void {
    this.busy = cause === 'request';
    this.outcome = 'waits';
    this.#machine.gate
      .reserve(this, {
        cause: () => cause,
        signal: this.stop.signal,
        onWait: (waitsFor) => {
          this.waitsFor = waitsFor;
        },
        stayIdle: () => {},
      })
      .then(
        (grant) => {
          this.outcome = grant === null ? 'idle' : 'loads';
          this.reservedBytes = grant?.bytes ?? 0;
          this.planBytes = grant?.planBytes ?? null;
          this.#grant = grant;
        },
        (error: unknown) => {
          this.outcome = error instanceof Error ? error.message : 'stopped';
        },
      );
  }

  #grant: MemoryGrant | null = null;

  /** Whether it has memory and is being loaded. */
  get loading(): boolean {
    return this.#grant !== null;
  }

  /** Ends loading, and the requests that waited for it. */
  loaded(): void {
    const grant = this.#grant;
    this.#grant = null;
    grant?.[Symbol.dispose]();
    this.lastUsedMs = this.#machine.nowMs;
    this.busy = false;
  }

  /** Loads the model without waiting. */
  async load(): Promise<this> {
    this.request();
    await this.#machine.settle();
    assert.equal(this.outcome, 'loads', this.id);
    this.loaded();
    return this;
  }
}

test('the models that were not used for the longest time are unloaded, but none in vain', async () => {
  const machine = new Machine(100);
  const [a, b, c] = [machine.model('a', 20), machine.model('b', 30), machine.model('c', 25)];
  const d = machine.model('d', 60);
  for (const model of [a, b, c]) {
    machine.nowMs += MIN_STAY_MS;
    // oxlint-disable-next-line no-await-in-loop
    await model.load();
  }
  machine.nowMs += MIN_STAY_MS;
  const bytes = (models: TestModel[]) => models.reduce((sum, { reservedBytes }) => sum + reservedBytes, 0);
  assert.ok(bytes([a, b, c]) <= 100);
  d.request();
  await machine.settle();
  assert.equal(d.outcome, 'loads');
  assert.ok(c.reservedBytes > 0 || bytes([d]) + bytes([c]) > 100, machine.loaded);
  assert.equal(a.reservedBytes === 0 || b.reservedBytes === 0, true);
});

test('a later model alone is unloaded if that is enough and an earlier one would not help', async () => {
  const machine = new Machine(120);
  const small = await machine.model('s', 5).load();
  machine.nowMs += MIN_STAY_MS;
  const large = await machine.model('l', 50).load();
  machine.nowMs += MIN_STAY_MS;
  assert.deepEqual([small.reservedBytes, large.reservedBytes], [10, 100]);
  const next = machine.model('n', 90);
  next.request();
  await machine.settle();
  assert.deepEqual([next.outcome, machine.loaded], ['loads', 'sn']);
});

test('a model stays for the minimum time, or as long as loading took', async () => {
  const machine = new Machine(100);
  const [a, b] = [machine.model('a', 60), machine.model('b', 60)];
  a.request();
  await machine.settle();
  machine.nowMs += 3 * MIN_STAY_MS;
  a.loaded();
  b.request();
  machine.nowMs += 3 * MIN_STAY_MS - 1;
  await machine.settle();
  assert.equal(b.waitsFor, 'waiting for `a`, which was loaded a moment ago');
  assert.deepEqual([machine.loaded, machine.gate.swaps], ['a', 0]);
  machine.nowMs += 1;
  await machine.settle();
  assert.deepEqual([b.outcome, machine.loaded, machine.gate.swaps], ['loads', 'b', 1]);
});

test('callers who take turns between two models cause one swap in the minimum time', async () => {
  const machine = new Machine(100);
  const [a, b] = [machine.model('a', 60), machine.model('b', 60)];
  await a.load();
  const turns = 40;
  for (let each = 0; each < turns; each++) {
    machine.nowMs += MIN_STAY_MS / 10;
    const next = machine.loaded === 'a' ? b : a;
    if (next.outcome !== 'waits') next.request();
    // oxlint-disable-next-line no-await-in-loop
    await machine.settle();
    if (next.reservedBytes > 0) next.loaded();
  }
  assert.equal(machine.gate.swaps, (turns * MIN_STAY_MS) / 10 / MIN_STAY_MS);
});

test('one model is loaded at a time, in the order of arrival', async () => {
  const machine = new Machine(200);
  const [a, b, c] = [machine.model('a', 50), machine.model('b', 50), machine.model('c', 50)];
  for (const model of [a, b, c]) model.request();
  await machine.settle();
  assert.deepEqual([a.outcome, b.outcome, c.outcome], ['loads', 'waits', 'waits']);
  assert.equal(b.waitsFor, 'waiting for `a` to load');
  a.loaded();
  await machine.settle();
  assert.deepEqual([b.outcome, c.outcome], ['loads', 'waits']);
  // The engine of `b` has failed.
  b.reservedBytes = 0;
  b.loaded();
  await machine.settle();
  assert.deepEqual([c.outcome, machine.loaded], ['loads', 'ac']);
});

test('the first model gets the memory, even if its file is read more slowly', async () => {
  const machine = new Machine(200);
  const [a, b] = [machine.model('a', 150), machine.model('b', 150)];
  const readFootprint = a.footprint.bind(a);
  const slow = Promise.withResolvers<void>();
  let isFirst = true;
  a.footprint = async () => {
    if (isFirst) {
      isFirst = false;
      await slow.promise;
    }
    return await readFootprint();
  };
  for (const model of [a, b]) model.request();
  await machine.settle();
  slow.resolve();
  await machine.settle();
  assert.deepEqual([a.outcome, b.outcome], ['loads', 'waits']);
});

test('a model that is unloaded at the moment when it could be loaded does not block the others', async () => {
  const machine = new Machine(200);
  const [a, b, c] = [machine.model('a', 50), machine.model('b', 50), machine.model('c', 50)];
  for (const model of [a, b, c]) model.request();
  await machine.settle();
  b.stop.abort(new Error('unloaded'));
  a.loaded();
  await machine.settle();
  assert.deepEqual([b.outcome, c.outcome], ['unloaded', 'loads']);
});

test('an engine that does not exit keeps its memory, and its replacement can be canceled', async () => {
  const machine = new Machine(100);
  const a = await machine.model('a', 60, { exits: Promise.withResolvers() }).load();
  machine.nowMs += MIN_STAY_MS;
  const [b, c] = [machine.model('b', 60), machine.model('c', 60)];
  b.request();
  c.request();
  await machine.settle();
  assert.deepEqual([b.waitsFor, machine.loaded, machine.gate.swaps], ['waiting for `a` to exit', 'a', 1]);
  b.stop.abort(new Error('unloaded'));
  await machine.settle();
  assert.deepEqual([b.outcome, c.outcome], ['unloaded', 'waits']);
  a.exits.resolve();
  await machine.settle();
  assert.deepEqual([c.outcome, machine.loaded, machine.gate.swaps], ['loads', 'c', 1]);
});

test('nothing is unloaded while the models that may be unloaded are not enough', async () => {
  const machine = new Machine(100);
  const [kept, idle, busy] = [
    await machine.model('k', 10, { keep: true }).load(),
    await machine.model('i', 10).load(),
    await machine.model('b', 30).load(),
  ];
  machine.nowMs += MIN_STAY_MS;
  busy.busy = true;
  const next = machine.model('n', 75);
  next.request();
  await machine.settle();
  assert.deepEqual([next.waitsFor, machine.loaded], ['waiting for the requests of `b` to end', 'kib']);
  busy.busy = false;
  await machine.settle();
  assert.deepEqual([next.outcome, machine.loaded, kept.reservedBytes > 0], ['loads', 'kn', true]);
  assert.equal(idle.reservedBytes, 0);
  next.loaded();
  const huge = machine.model('h', 95_000_000);
  huge.request();
  await machine.settle();
  assert.equal(huge.outcome, 'Not enough memory: the model needs 95 MB, but only 0 MB are available.');
});

test('models that arrive later leave the memory that the oldest waiting one needs', async () => {
  const machine = new Machine(100);
  const busy = await machine.model('b', 50, { share: 1 }).load();
  busy.reservedBytes = 50;
  busy.busy = true;
  machine.nowMs += MIN_STAY_MS;
  const large = machine.model('l', 60);
  large.request();
  await machine.settle();
  const small = [machine.model('s', 30), machine.model('t', 15)];
  for (const model of small) model.request();
  await machine.settle();
  assert.deepEqual([large.outcome, small[0]?.outcome, machine.loaded], ['waits', 'loads', 'bs']);
  assert.ok((small[0]?.reservedBytes ?? 0) <= 40, 'it gets no more than the large model leaves');
  small[0]?.loaded();
  // From now on, small models are always in use.
  if (small[0]) small[0].busy = true;
  await machine.settle();
  assert.deepEqual([small[1]?.outcome, small[1]?.waitsFor], ['waits', 'waiting for `l` to load']);
  busy.busy = false;
  machine.nowMs += MIN_STAY_MS;
  await machine.settle();
  assert.deepEqual([large.outcome, machine.loaded], ['loads', 'ls']);
});

test('memory that an engine was promised is not given to another one before the engine uses it', async () => {
  const machine = new Machine(100);
  // The system counts the file of its model as cache.
  const a = await machine.model('a', 30, { share: 0.1 }).load();
  assert.equal(a.reservedBytes, 60);
  machine.nowMs += MIN_STAY_MS;
  const b = machine.model('b', 50);
  b.request('room');
  await machine.settle();
  assert.deepEqual([b.outcome, machine.loaded], ['idle', 'a']);
  b.request();
  await machine.settle();
  assert.deepEqual([b.outcome, machine.loaded], ['loads', 'b']);
});

test('a model leaves memory for the models that fit beside it', async () => {
  const machine = new Machine(100);
  const [a, b, c] = [machine.model('a', 20), machine.model('b', 30), machine.model('c', 70)];
  // `c` fits only alone, so it has no share.
  await a.load();
  assert.equal(a.planBytes, 20 + (100 - 20 - 30) / 2);
  await b.load();
  assert.equal(b.planBytes, 100 - a.reservedBytes);
  c.request('room');
  await machine.settle();
  assert.deepEqual([c.outcome, machine.loaded], ['idle', 'ab']);
});

test('the memory of all engines together is at most the configured one', async () => {
  const machine = new Machine(1000, 50);
  const a = await machine.model('a', 30).load();
  assert.deepEqual([a.planBytes, a.reservedBytes], [50, 50]);
  machine.nowMs += MIN_STAY_MS;
  const b = machine.model('b', 51);
  b.request();
  await machine.settle();
  assert.match(b.outcome, /Not enough memory/);
  assert.equal(machine.loaded, 'a');
});

/** What can happen to a model at any time. Does nothing where it cannot. */
const EVENTS: Record<string, (model: TestModel) => void> = {
  request(model) {
    if (model.reservedBytes > 0 && !model.leaving) model.busy = true;
    else if (model.outcome !== 'waits' && !model.loading) model.request();
  },
  start(model) {
    if (model.reservedBytes === 0 && model.outcome !== 'waits') model.request('room');
  },
  load(model) {
    if (model.reservedBytes === 0 && model.outcome !== 'waits') model.request('operator');
  },
  loaded(model) {
    if (model.loading) model.loaded();
  },
  fail(model) {
    if (!model.loading) return;
    model.reservedBytes = 0;
    model.loaded();
  },
  disconnect(model) {
    model.busy = false;
  },
  unload(model) {
    model.busy = false;
    if (model.outcome === 'waits') {
      model.stop.abort(new Error('unloaded'));
      model.stop = new AbortController();
    } else if (model.reservedBytes > 0 && !model.loading && !model.leaving && !model.keep) void model.sleep();
  },
};

test('whatever happens, memory is not exceeded, models in use stay, and no model waits forever', async () => {
  const event = fc.record({
    name: fc.constantFrom(...Object.keys(EVENTS)),
    index: fc.nat(3),
    afterMs: fc.constantFrom(0, 0, 300, MIN_STAY_MS),
  });
  const sizes = fc.array(fc.record({ bytes: fc.integer({ min: 10, max: 110 }), keep: fc.boolean() }), {
    minLength: 4,
    maxLength: 4,
  });
  await fc.assert(
    fc.asyncProperty(sizes, fc.array(event, { maxLength: 40 }), async (models, events) => {
      const machine = new Machine(100);
      models.forEach(({ bytes, keep }, index) =>
        machine.model(String(index), bytes, { keep: keep && index === 0 }),
      );
      const check = () => {
        assert.ok(machine.models.reduce((sum, { reservedBytes }) => sum + reservedBytes, 0) <= 100);
        assert.ok(machine.models.filter(({ loading }) => loading).length <= 1);
      };
      for (const { name, index, afterMs } of events) {
        machine.nowMs += afterMs;
        EVENTS[name]?.(machine.models[index] as TestModel);
        // oxlint-disable-next-line no-await-in-loop
        await machine.settle();
        check();
      }
      // All requests end, and every load succeeds.
      for (let round = 0; round < 10; round++) {
        machine.nowMs += 10 * MIN_STAY_MS;
        for (const model of machine.models) {
          if (model.loading) model.loaded();
          if (model.reservedBytes > 0) model.busy = false;
        }
        // oxlint-disable-next-line no-await-in-loop
        await machine.settle();
        check();
      }
      assert.deepEqual(
        machine.models.filter(({ outcome, loading }) => outcome === 'waits' || loading),
        [],
      );
    }),
    { numRuns: 200 },
  );
});
