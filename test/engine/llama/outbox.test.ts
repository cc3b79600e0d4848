import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { formatFrame } from '../../../src/engine/engine-protocol.ts';
import { EventFrameReader } from '../../../src/replicas/wire/event-frames.ts';
import { Job } from '../../../src/engine/llama/decode/job.ts';
import { Outbox } from '../../../src/engine/llama/output/outbox.ts';
import type { TokenLogprob, EngineEvent } from '../../../src/core/generation.ts';

const token = (
  choice: number,
  text: string,
  completionTokens = 1,
  logprobs: TokenLogprob[] | null = null,
): EngineEvent => ({
  type: 'token',
  choice,
  text,
  completionTokens,
  logprobs,
});

test('a waiting reader receives each event immediately', async () => {
  const outbox = new Outbox();
  const first = outbox.next();
  outbox.push(token(0, 'a'));
  outbox.push(token(0, 'b'));
  assert.deepEqual((await first).value, token(0, 'a'));
  assert.deepEqual((await outbox.next()).value, token(0, 'b'));
});

/** A part of a choice: text, reasoning, the start of a call, or arguments. */
type Part = Extract<EngineEvent, { completionTokens: number }>;

const part: fc.Arbitrary<Part> = fc
  .record({
    type: fc.constantFrom('token', 'token', 'reasoning', 'tool-call', 'tool-arguments'),
    choice: fc.nat(2),
    call: fc.nat(1),
    text: fc.string({ minLength: 1 }),
  })
  .map(({ type, choice, call, text }): Part => {
    const counts = { choice, completionTokens: 1 };
    if (type === 'tool-call') return { type, call, id: text, name: 'f', ...counts };
    if (type === 'tool-arguments') return { type, call, text, ...counts };
    return { type, text, logprobs: null, ...counts };
  });

/** Returns the parts of a choice. Joins consecutive parts of the same type and call. */
function joinedParts(parts: readonly Part[], choice: number): string[] {
  const joined: string[] = [];
  let before = '';
  for (const event of parts.filter((each) => each.choice === choice)) {
    const kind = event.type === 'tool-arguments' ? `${event.type} ${event.call}` : event.type;
    if (event.type === 'tool-call') joined.push(`${kind} ${event.call} ${event.id}`);
    else if (kind === before) joined.push(`${joined.pop()}${event.text}`);
    else joined.push(`${kind}: ${event.text}`);
    before = kind;
  }
  return joined;
}

test('a slow reader receives joined events, with every part of each choice in order', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(part, fc.boolean())), async (writes) => {
      const outbox = new Outbox();
      const received: Part[] = [];
      let unread = 0;
      const read = async (): Promise<boolean> => {
        const { value: event } = await outbox.next();
        if (event === undefined) return false;
        assert('completionTokens' in event);
        received.push(event);
        unread--;
        return true;
      };
      for (const [event, reads] of writes) {
        outbox.push(event);
        unread++;
        if (reads) await read();
      }
      outbox.close();
      while (await read());
      assert(unread >= 0);
      const written = writes.map(([event]) => event);
      for (const choice of [0, 1, 2])
        assert.deepEqual(joinedParts(received, choice), joinedParts(written, choice));
    }),
  );
});

test('unread arguments of a call are joined into one event, after the event that starts the call', async () => {
  const outbox = new Outbox();
  const start: EngineEvent = {
    type: 'tool-call',
    choice: 0,
    call: 0,
    id: 'call_1',
    name: 'f',
    completionTokens: 1,
  };
  const piece = (text: string, completionTokens: number): EngineEvent => ({
    type: 'tool-arguments',
    choice: 0,
    call: 0,
    text,
    completionTokens,
  });
  outbox.push(token(0, 'a'));
  outbox.push(start);
  for (let i = 2; i <= 1000; i++) outbox.push(piece('x', i));
  outbox.push(token(0, 'b', 1001));
  outbox.close();
  const events: EngineEvent[] = [];
  for await (const event of outbox) events.push(event);
  assert.deepEqual(events, [token(0, 'a'), start, piece('x'.repeat(999), 1000), token(0, 'b', 1001)]);
});

test('a thousand unread tokens of one choice are one event', async () => {
  const outbox = new Outbox();
  for (let i = 1; i <= 1000; i++) outbox.push(token(0, 'x', i));
  outbox.close();
  const { value: event } = await outbox.next();
  assert.deepEqual(event, token(0, 'x'.repeat(1000), 1000));
  assert.equal((await outbox.next()).done, true);
});

test('unread tokens of several choices are joined into one event per choice, in the order of their last tokens', async () => {
  const outbox = new Outbox();
  const logprob = { token: 'x', logprob: -1, bytes: [120], top: [] };
  for (let i = 1; i <= 9999; i++) outbox.push(token(i % 3, 'x', i, [logprob]));
  outbox.push({ type: 'finish', choice: 1, reason: 'stop', stopSequence: null });
  outbox.push(token(0, 'y', 10_000));
  outbox.close();
  const events: string[] = [];
  for await (const event of outbox) {
    const { type, ...rest } = event;
    if (events.length > 9) assert.fail('the events were not joined');
    if (event.type !== 'token') events.push(`${type} ${JSON.stringify(rest)}`);
    else
      events.push(
        `${event.choice}: ${event.text.length} characters, ${event.logprobs?.length} log probabilities, ${event.completionTokens} tokens`,
      );
  }
  assert.deepEqual(events, [
    '1: 3333 characters, 3333 log probabilities, 9997 tokens',
    '2: 3333 characters, 3333 log probabilities, 9998 tokens',
    'finish {"choice":1,"reason":"stop","stopSequence":null}',
    '0: 3334 characters, 3333 log probabilities, 10000 tokens',
  ]);
});

test('a failure follows the unread events, and rejects a waiting reader', async () => {
  const outbox = new Outbox();
  outbox.push(token(0, 'a'));
  outbox.fail(new Error('gone'));
  outbox.push(token(0, 'too late'));
  assert.deepEqual((await outbox.next()).value, token(0, 'a'));
  await assert.rejects(outbox.next(), /gone/);
  const waiting = new Outbox();
  const next = waiting.next();
  waiting.fail(new Error('gone'));
  await assert.rejects(next, /gone/);
});

test('joined events have the IDs of all their tokens, and an event without IDs is not joined to one with IDs', async () => {
  const outbox = new Outbox();
  const withIds = (text: string, completionTokens: number, ...tokenIds: number[]): EngineEvent => ({
    type: 'token',
    choice: 0,
    text,
    completionTokens,
    logprobs: null,
    tokenIds,
  });
  outbox.push(withIds('a', 1, 7));
  outbox.push(withIds('b', 3, 8, 9));
  outbox.push(token(0, 'c', 4));
  outbox.push(withIds('d', 4, 10));
  outbox.close();
  assert.deepEqual((await outbox.next()).value, withIds('ab', 3, 7, 8, 9));
  assert.deepEqual((await outbox.next()).value, withIds('cd', 4, 10));
});

test('a reader that stops early cancels the request, and receives no more events', async () => {
  const outbox = new Outbox();
  let returned = 0;
  outbox.onReturn = () => void returned++;
  outbox.push(token(0, 'a'));
  outbox.push(token(1, 'b'));
  for await (const event of outbox) {
    assert.deepEqual(event, token(0, 'a'));
    break;
  }
  outbox.push(token(0, 'c'));
  assert.deepEqual([(await outbox.next()).done, returned], [true, 1]);
});

/** Returns all events, as the service reads them from the engine process. */
async function readFrames(outbox: Outbox): Promise<EngineEvent[]> {
  const reader = new EventFrameReader();
  const events: EngineEvent[] = [];
  for await (const event of outbox) {
    const frame = Buffer.from(formatFrame(event));
    reader.push(frame.subarray(0, -1), events);
    reader.push(frame.subarray(-1), events);
  }
  return events;
}

test('the frames of unread tokens with log probabilities fit into the limit of the service', async () => {
  const outbox = new Outbox();
  const entry = {
    token: ' '.repeat(16),
    logprob: -12.345678901234567,
    bytes: Array.from({ length: 16 }, () => 32),
  };
  const logprob = { ...entry, top: Array.from({ length: 20 }, () => entry) };
  for (let i = 1; i <= 1500; i++) outbox.push(token(0, 'x', i, [logprob]));
  outbox.close();
  const events = await readFrames(outbox);
  const parts = events.flatMap((event) => (event.type === 'token' ? event : []));
  assert.equal(parts.map(({ text }) => text).join(''), 'x'.repeat(1500));
  assert.equal(parts.flatMap(({ logprobs }) => logprobs ?? []).length, 1500);
  assert.equal(parts.at(-1)?.completionTokens, 1500);
});

test('the frames of unread text, reasoning and arguments of any characters fit into the limit of the service', async () => {
  const unit = fc.constantFrom('x', '\u0001', 'é', '東', '😀', '\ud800', '"');
  const content = fc.record({ text: unit, length: fc.nat(20_000), ids: fc.nat(2000) });
  const contents = fc.array(content, { minLength: 20, maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(part, contents, async (kind, written) => {
      const outbox = new Outbox();
      const sent = written.map(({ text, length, ids }): Part => {
        const tokenIds = Array.from({ length: ids }, () => 262_143);
        return kind.type === 'tool-call' ? kind : { ...kind, text: text.repeat(length), tokenIds };
      });
      for (const each of sent) outbox.push({ ...each });
      outbox.close();
      const received = (await readFrames(outbox)) as Part[]; // Only parts were written.
      for (const choice of [0, 1, 2])
        assert.deepEqual(joinedParts(received, choice), joinedParts(sent, choice));
    }),
    { numRuns: 20, endOnFailure: true },
  );
});

test('the progress of a prompt is reported at most once a second, and not after it has been computed', async () => {
  const job = new Job({ cacheScope: null, logprobs: null, choices: 1, tokenIds: false }, [
    new Uint32Array(1000),
  ]);
  job.cachedTokens = 100;
  job.start();
  const now = performance.now();
  for (const [tokens, atMs] of [
    [200, 500],
    [200, 1100],
    [200, 1900],
    [200, 2200],
    [100, 4000],
    [1, 9000],
  ] as const)
    job.promptComputed(tokens, now + atMs);
  job.outbox.close();
  const events: EngineEvent[] = [];
  for await (const event of job.outbox) events.push(event);
  assert.deepEqual(events, [
    { type: 'started', promptTokens: 1000, cachedTokens: 100 },
    { type: 'prefill', promptTokens: 1000, doneTokens: 500 },
    { type: 'prefill', promptTokens: 1000, doneTokens: 900 },
  ]);
});
