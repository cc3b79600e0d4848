import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import {
  readEngineHealth,
  ENGINE_PROTOCOL,
  engineRequest,
  formatErrorFrame,
  formatFrame,
  KEEP_ALIVE_FRAME,
  readEngineRequest,
} from '../../src/engine/engine-protocol.ts';
import { EventFrameReader } from '../../src/replicas/wire/event-frames.ts';
import { ServiceError } from '../../src/core/errors.ts';
import { FINISH_REASONS, NO_USAGE, REASONING_EFFORTS, type EngineEvent } from '../../src/core/generation.ts';
import type { JsonObject } from '../../src/json/values.ts';
import { chat, text } from '../protocols/openai/samples.ts';

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
const EVENT: fc.Arbitrary<EngineEvent> = fc
  .tuple(fc.option(fc.array(COUNT)), anyEvent())
  .map(([ids, event]) =>
    ids === null || !('completionTokens' in event) ? event : { ...event, tokenIds: ids },
  );

function anyEvent(): fc.Arbitrary<EngineEvent> {
  return fc.oneof(
    record({
      type: fc.constant('started' as const),
      promptTokens: fc.option(COUNT),
      cachedTokens: fc.option(COUNT),
    }),
    record({ type: fc.constant('prefill' as const), promptTokens: COUNT, doneTokens: COUNT }),
    record({ type: fc.constant('token' as const), ...DELTA }),
    record({ type: fc.constant('reasoning' as const), ...DELTA }),
    record({ type: fc.constant('tool-call' as const), id: TEXT, name: TEXT, ...CALL }),
    record({ type: fc.constant('tool-arguments' as const), text: TEXT, ...CALL }),
    record({
      type: fc.constant('finish' as const),
      choice: COUNT,
      reason: fc.constantFrom(...FINISH_REASONS),
      stopSequence: fc.option(TEXT),
    }),
  );
}
const END: EngineEvent = {
  type: 'end',
  usage: { promptTokens: 3, completionTokens: 2, cachedTokens: 1, reasoningTokens: 0 },
  usageSource: 'engine',
};

/** Reads bytes in chunks that end at `cuts`. */
function read(bytes: Buffer, cuts: readonly number[] = []): EngineEvent[] {
  const reader = new EventFrameReader();
  const events: EngineEvent[] = [];
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

const frames = (events: readonly EngineEvent[]) => Buffer.from(events.map(formatFrame).join(''));

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
  const started: EngineEvent = { type: 'started', promptTokens: 1, cachedTokens: 0 };
  const events: EngineEvent[] = [];
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
  const finish: EngineEvent = { type: 'finish', choice: 0, reason: 'stop', stopSequence: null };
  for (const bytes of [Buffer.alloc(0), frames([finish]), frames([END]).subarray(0, -1)]) {
    assert.throws(() => read(bytes), {
      code: 'engine_unavailable',
      message: 'The engine of this model ended its response early.',
    });
  }
});

const named = (name: string) => ({ type: 'function', function: { name } });

test('an engine reads the same request that the service has', () => {
  const fields = fc.record(
    {
      temperature: fc.double({ min: 0, max: 2, noNaN: true }).map((value) => value + 0),
      top_p: fc.double({ min: 0, max: 1, noNaN: true }),
      top_k: fc.nat(100),
      min_p: fc.double({ min: 0, max: 1, noNaN: true }).map((value) => value + 0),
      seed: fc.maxSafeInteger(),
      presence_penalty: fc.integer({ min: -2, max: 2 }),
      repetition_penalty: fc.constantFrom(0.5, 1, 2),
      logit_bias: fc.dictionary(fc.nat(100_000).map(String), fc.integer({ min: -100, max: 100 })),
      stop: fc.array(fc.string({ unit: 'binary', minLength: 1, maxLength: 9 }), { maxLength: 4 }),
      n: fc.integer({ min: 1, max: 3 }),
      max_tokens: fc.integer({ min: 1 }),
      response_format: fc.constantFrom(
        { type: 'text' },
        { type: 'json_object' },
        {
          type: 'json_schema',
          json_schema: { name: 'n', schema: { type: 'object' }, strict: false },
        },
      ),
      stream: fc.boolean(),
    },
    { requiredKeys: [] },
  );
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{"b":1}' } };
  const chatFields = fc.record(
    {
      tools: fc.constantFrom([named('f'), named('g')], [named('g')]),
      tool_choice: fc.constantFrom('none', 'auto', 'required', named('g'), {
        type: 'allowed_tools',
        allowed_tools: { mode: 'required', tools: [named('g')] },
      }),
      parallel_tool_calls: fc.boolean(),
      reasoning_effort: fc.constantFrom(...REASONING_EFFORTS),
      chat_template_kwargs: fc
        .dictionary(fc.constantFrom('a', 'b'), fc.jsonValue())
        .map((variables): unknown => JSON.parse(JSON.stringify(variables))),
      messages: fc.constant([
        { role: 'assistant', content: null, reasoning: 'r', tool_calls: [call] },
        { role: 'tool', tool_call_id: 'a', content: 'x' },
      ]),
    },
    { requiredKeys: ['tools'] },
  );
  fc.assert(
    fc.property(fields, chatFields, fc.boolean(), (given, chatOnly, isChat) => {
      const parsed = isChat ? chat({ ...given, ...chatOnly }).request : text(given).request;
      const continuation = { promptTokenIds: null, tokenIds: [5, 6], text: 'a b', usage: NO_USAGE };
      const request = {
        ...parsed,
        cacheScope: 's',
        tokenIds: true,
        continuation,
        traceparent: 't',
        user: 'u',
      };
      const body = engineRequest(request, { model: 'm', maxTokens: 7 });
      assert.deepEqual(readEngineRequest(JSON.parse(JSON.stringify(body)) as JsonObject), {
        ...request,
        model: 'm',
        maxTokens: 7,
        sampling: { ...request.sampling, explicit: new Set() },
        continuation: { ...continuation, text: '' },
        traceparent: null,
        user: null,
      });
    }),
  );
});

test('a request and an engine of another version are refused with what to do', () => {
  for (const body of [{}, { version: ENGINE_PROTOCOL + 1 }, { model: 'm', prompt: 'x' }])
    assert.throws(() => readEngineRequest(body), {
      code: 'invalid_value',
      message: /same version of Sluice/,
    });
  assert.deepEqual(readEngineHealth({ protocol: ENGINE_PROTOCOL, slots: 3 }), { slots: 3 });
  assert.throws(() => readEngineHealth({}), /no version .* same version of Sluice/);
  assert.throws(() => readEngineHealth({ protocol: 9 }), /version 9 .* same version of Sluice/);
});
