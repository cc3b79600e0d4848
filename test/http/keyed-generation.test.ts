import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import * as fc from '../support/fast-check.ts';
import { ServiceError } from '../../src/core/errors.ts';
import { ClientDisconnected } from '../../src/inference/complete.ts';
import { GenerationRecord } from '../../src/inference/record.ts';
import { KeyedGeneration, type ResponseReader } from '../../src/http/idempotency/keyed-generation.ts';

/** A generation with its own memory, and the events that it reports. */
class Fixture {
  readonly generation: KeyedGeneration;
  readonly undelivered: string[] = [];
  abandoned = 0;
  bytes = 0;
  peakBytes = 0;

  constructor(maxBytes = Infinity, graceMs = 0) {
    this.generation = new KeyedGeneration({
      accountId: 'account',
      id: 'account\nkey',
      fingerprint: 'chat:hash',
      requestId: 'request',
      memory: {
        reserve: (_account, bytes) => {
          if (this.bytes + bytes > maxBytes) return false;
          this.#add(bytes);
          return true;
        },
        add: (_account, bytes) => this.#add(bytes),
        release: (_account, bytes) => (this.bytes -= bytes),
      },
      stream: { holdMs: 1e6, keepAliveMs: 1e6 },
      graceMs: () => graceMs,
      onWaiting: () => {},
      onAbandoned: (generation) => {
        this.abandoned++;
        generation.discard();
      },
      onUndelivered: (requestId) => this.undelivered.push(requestId),
    });
  }

  /** Writes a stream. Pauses before each frame for this number of turns of the event loop. */
  async write(frames: readonly string[], pause = 0): Promise<void> {
    const { generation } = this;
    using out = generation.openStream(new GenerationRecord(), () => '');
    for (const frame of frames) {
      await turns(pause);
      await out.write(frame);
    }
    out.end('');
  }

  #add(bytes: number): void {
    this.bytes += bytes;
    this.peakBytes = Math.max(this.peakBytes, this.bytes);
  }
}

async function turns(count: number): Promise<void> {
  for (let left = count; left > 0; left--) await turn();
}

/** Reads a response. Pauses after each part for this number of turns of the event loop. */
async function readAll(reader: ResponseReader, pause = 0): Promise<string> {
  let text = '';
  for (let part = await reader.next(); part !== null; part = await reader.next()) {
    text += part.toString();
    await turns(pause);
  }
  reader.close(null);
  return text;
}

const frame = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.integer({ min: 1, max: 100_000 }).map((length) => 'é'.repeat(length)),
);
const frames = fc.array(frame, { maxLength: 30 });
const pause = fc.nat(5);

test('every reader gets the whole response, whenever it joins and however slowly it reads', async () => {
  const readers = fc.array(fc.record({ joinAfter: fc.nat(100), pause }), { maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(frames, pause, readers, async (written, writePause, paces) => {
      const fixture = new Fixture();
      const first = readAll(fixture.generation.join());
      const others = paces.map(async ({ joinAfter, pause: readPause }) => {
        await turns(joinAfter);
        return await readAll(fixture.generation.join(), readPause);
      });
      await fixture.write(written, writePause);
      for (const text of await Promise.all([first, ...others])) assert.equal(text, written.join(''));
      assert.deepEqual(fixture.undelivered, []);
      fixture.generation.discard();
      assert.equal(fixture.bytes, 0);
    }),
    { numRuns: 50 },
  );
});

test('a response that exceeds the memory is sent completely to the first reader, and uses at most three pages more', async () => {
  const maxBytes = 65_536;
  const small = fc.array(
    fc.integer({ min: 1, max: 20_000 }).map((length) => 'é'.repeat(length)),
    {
      maxLength: 60,
    },
  );
  await fc.assert(
    fc.asyncProperty(small, pause, pause, async (written, writePause, readPause) => {
      const fixture = new Fixture(maxBytes);
      const text = readAll(fixture.generation.join(), readPause);
      await fixture.write(written, writePause);
      assert.equal(await text, written.join(''));
      assert.ok(fixture.peakBytes <= maxBytes + 3 * 65_536, String(fixture.peakBytes));
      fixture.generation.discard();
      assert.equal(fixture.bytes, 0);
    }),
    { numRuns: 50 },
  );
});

test('a response that exceeds the memory waits for the first reader, and not for others, which get an error', async () => {
  const fixture = new Fixture(65_536);
  const parts = Array.from({ length: 40 }, (_, index) => String(index % 10).repeat(10_000));
  const first = fixture.generation.join();
  const second = fixture.generation.join();
  const written = fixture.write(parts);
  let isWritten = false;
  void written.then(() => (isWritten = true));
  await turns(100);
  assert.equal(isWritten, false);
  assert.equal(fixture.generation.shared, false);
  assert.equal(await readAll(first), parts.join(''));
  await written;
  await assert.rejects(readAll(second), (error) => {
    assert.ok(error instanceof ServiceError);
    assert.equal(error.code, 'idempotency_in_flight');
    return true;
  });
  second.close(null);
  assert.equal(fixture.abandoned, 0);
});

test('all readers of a JSON response get the same memory', async () => {
  const { generation } = new Fixture();
  const readers = [generation.join(), generation.join()];
  generation.sendJson('{"é":1}');
  const [first, second] = await Promise.all(readers.map((reader) => reader.next()));
  assert.equal(first?.toString(), '{"é":1}');
  assert.equal(second?.buffer, first?.buffer);
  assert.ok(first?.buffer instanceof ArrayBuffer);
});

test('all readers of a JSON response in parts get all parts', async () => {
  const { generation } = new Fixture();
  const readers = [generation.join(), generation.join()];
  const parts = ['[', `"${'a'.repeat(5000)}",`, '"é"', ']'];
  generation.sendJson(parts.map((part) => Buffer.from(part)));
  for (const reader of readers) assert.equal(await readAll(reader), parts.join(''));
});

test('a generation is aborted when its last reader leaves, and not before', () => {
  const fixture = new Fixture();
  const first = fixture.generation.join();
  const second = fixture.generation.join();
  first.close(new ClientDisconnected());
  assert.equal(fixture.generation.stop.signal.aborted, false);
  const reason = new ClientDisconnected('gone');
  second.close(reason);
  second.close(null);
  assert.equal(fixture.generation.stop.signal.reason, reason);
  assert.deepEqual([fixture.abandoned, fixture.bytes], [1, 0]);
});

test('a generation without readers is aborted after graceMs, unless one joins before', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout', 'setImmediate'] });
  const fixture = new Fixture(Infinity, 1000);
  const { signal } = fixture.generation.stop;
  fixture.generation.join().close(new ClientDisconnected());
  context.mock.timers.tick(999);
  const second = fixture.generation.join();
  context.mock.timers.tick(2000);
  assert.equal(signal.aborted, false);
  second.close(new ClientDisconnected());
  context.mock.timers.tick(999);
  assert.equal(signal.aborted, false);
  context.mock.timers.tick(1);
  context.mock.timers.tick(0);
  assert.equal(signal.aborted, true);
});

test('a generation that exceeds the memory without readers is aborted at once', async () => {
  const fixture = new Fixture(10_000, 1_000_000);
  fixture.generation.join().close(new ClientDisconnected());
  await fixture.write(['x'.repeat(10_000)]);
  assert.equal(fixture.generation.stop.signal.aborted, true);
  assert.equal(fixture.bytes, 0);
});

test('a response is undelivered if every reader left before its end', async () => {
  const fixture = new Fixture(Infinity, 1_000_000);
  const first = fixture.generation.join();
  const second = fixture.generation.join();
  await fixture.write(['one']);
  first.close(new ClientDisconnected());
  assert.deepEqual(fixture.undelivered, []);
  second.close(new ClientDisconnected());
  assert.deepEqual(fixture.undelivered, ['request']);
});

test('an error before the response rejects every reader, including those that join later', async () => {
  const fixture = new Fixture();
  const error = new ServiceError('engine_unavailable', 'No replica.');
  const waiting = fixture.generation.join();
  const rejected = assert.rejects(waiting.next(), error);
  fixture.generation.fail(error);
  await rejected;
  await assert.rejects(fixture.generation.join().next(), error);
});
