import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  EventFrameReader,
  formatErrorFrame,
  formatFrame,
  KEEP_ALIVE_FRAME,
} from '../../src/engine/event-frame.ts';
import { ServiceError } from '../../src/errors.ts';
import { FINISH_REASONS, type GenerationEvent } from '../../src/generation.ts';

const record = <T>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }) =>
  fc.record(fields, { noNullPrototype: true });

const COUNT = fc.nat({ max: 1e9 });
const TEXT = fc.string({ unit: 'grapheme' });
const LOGPROB = record({
  token: TEXT,
  logprob: fc.double({ min: -100, max: 0, noNaN: true }).map((value) => value || 0),
  bytes: fc.option(fc.array(fc.nat({ max: 255 }))),
});
const DELTA = {
  choice: COUNT,
  text: TEXT,
  completionTokens: COUNT,
  logprobs: fc.option(
    fc.array(LOGPROB.chain((one) => record({ top: fc.array(LOGPROB) }).map((top) => ({ ...one, ...top })))),
  ),
};
const CALL = { choice: COUNT, call: COUNT, completionTokens: COUNT };
/** Every event but `end`. */
const EVENT: fc.Arbitrary<GenerationEvent> = fc
  .tuple(fc.option(fc.array(COUNT)), anyEvent())
  .map(([ids, event]) =>
    ids === null || !('completionTokens' in event) ? event : { ...event, tokenIds: ids },
  );

function anyEvent(): fc.Arbitrary<GenerationEvent> {
  return fc.oneof(
    record({
      type: fc.constant('started' as const),
      promptTokens: fc.option(COUNT),
      cachedTokens: fc.option(COUNT),
    }),
    record({ type: fc.constant('token' as const), ...DELTA }),
    record({ type: fc.constant('reasoning' as const), ...DELTA }),
    record({ type: fc.constant('tool-call' as const), id: TEXT, name: TEXT, ...CALL }),
    record({ type: fc.constant('tool-arguments' as const), text: TEXT, ...CALL }),
    record({
      type: fc.constant('finish' as const),
      choice: COUNT,
      reason: fc.constantFrom(...FINISH_REASONS),
    }),
  );
}
const END: GenerationEvent = {
  type: 'end',
  usage: { promptTokens: 3, completionTokens: 2, cachedTokens: 1, reasoningTokens: 0 },
  usageSource: 'engine',
};

/** Reads bytes in chunks that end at `cuts`. */
function read(bytes: Buffer, cuts: readonly number[] = []): GenerationEvent[] {
  const reader = new EventFrameReader();
  const events: GenerationEvent[] = [];
  let from = 0;
  for (const cut of [...cuts.map((one) => one % (bytes.length + 1)), bytes.length].toSorted(
    (a, b) => a - b,
  )) {
    reader.push(bytes.subarray(from, cut), events);
    from = cut;
  }
  reader.end();
  return events;
}

const frames = (events: readonly GenerationEvent[]) => Buffer.from(events.map(formatFrame).join(''));

test('events are read as they were written, in chunks of any size', () => {
  fc.assert(
    fc.property(fc.array(EVENT), fc.array(fc.nat()), (events, cuts) => {
      const written = [...events, END];
      assert.deepEqual(read(frames(written), cuts), written);
    }),
  );
});

test('an empty line between events has no effect', () => {
  assert.deepEqual(read(Buffer.from(KEEP_ALIVE_FRAME + formatFrame(END) + KEEP_ALIVE_FRAME)), [END]);
});

test('an error frame throws its error after the events before it', () => {
  const error = new ServiceError('context_length_exceeded', 'The prompt is too long.', { param: 'messages' });
  const started: GenerationEvent = { type: 'started', promptTokens: 1, cachedTokens: 0 };
  const events: GenerationEvent[] = [];
  assert.throws(
    () => new EventFrameReader().push(Buffer.from(formatFrame(started) + formatErrorFrame(error)), events),
    { code: 'context_length_exceeded', status: 400, param: 'messages', message: 'The prompt is too long.' },
  );
  assert.deepEqual(events, [started]);
});

for (const [name, text] of [
  ['text that is not JSON', 'x'],
  ['a number', '1'],
  ['an unknown type', '{"type":"other"}'],
  ['an array without text', '[0,1]'],
  ['a line that is too long', 'x'.repeat(2 ** 20 + 1)],
  ['an event after the end', formatFrame(END) + formatFrame(END).trim()],
] as const) {
  test(`${name} is an invalid response`, () => {
    assert.throws(() => read(Buffer.from(`${text}\n`)), {
      code: 'engine_unavailable',
      message: 'The engine of this model sent an invalid response.',
    });
  });
}

test('a response without an end is incomplete', () => {
  const finish: GenerationEvent = { type: 'finish', choice: 0, reason: 'stop' };
  for (const bytes of [Buffer.alloc(0), frames([finish]), frames([END]).subarray(0, -1)]) {
    assert.throws(() => read(bytes), {
      code: 'engine_unavailable',
      message: 'The engine of this model ended its response early.',
    });
  }
});
