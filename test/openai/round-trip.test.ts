import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { GenerationEvent, GenerationRequest, TokenLogprob } from '../../src/generation.ts';
import { readAnswer } from '../../src/openai/answer-reader.ts';
import { AnswerBuilder } from '../../src/openai/answer.ts';
import { StreamReader } from '../../src/openai/stream-reader.ts';
import { KEEP_ALIVE } from '../../src/event-stream.ts';
import { DONE, StreamFormatter } from '../../src/openai/stream.ts';
import { CALLER, CHAT_IDENTITY, parse } from './samples.ts';

/** What one side writes, the other reads: the same events, wherever the bytes are cut. */

const wellFormed = fc.string({ unit: 'binary', minLength: 1 });
const bytes = fc.option(fc.array(fc.nat(255), { maxLength: 4 }));
const logprob = fc.double({ min: -100, max: 0, noNaN: true }).map((value) => value + 0);
const entry = fc.record({ token: wellFormed, logprob, bytes }, { noNullPrototype: true });
/** The likeliest first. */
const top = fc.array(entry, { maxLength: 3 }).map((entries) => entries.sort((a, b) => b.logprob - a.logprob));
const chatLogprobs: fc.Arbitrary<TokenLogprob[]> = fc.array(
  fc.record({ token: wellFormed, logprob, bytes, top }, { noNullPrototype: true }),
  { minLength: 1, maxLength: 3 },
);

interface Story {
  request: GenerationRequest;
  events: GenerationEvent[];
}

/** A generation of 1 to 3 choices whose tokens come mixed, told with or without counts. */
const story: fc.Arbitrary<Story> = fc
  .record({
    kind: fc.constantFrom('chat' as const, 'text' as const),
    counts: fc.boolean(),
    usageAlone: fc.boolean(),
    withLogprobs: fc.boolean(),
    promptTokens: fc.nat(1000),
    cachedShare: fc.double({ min: 0, max: 1, noNaN: true }),
    choices: fc.integer({ min: 1, max: 3 }),
    deltas: fc.array(fc.record({ choice: fc.nat(2), text: wellFormed, logprobs: chatLogprobs }), {
      minLength: 1,
      maxLength: 12,
    }),
    reason: fc.constantFrom('stop' as const, 'length' as const),
  })
  .map(({ kind, counts, usageAlone, withLogprobs, choices, deltas, promptTokens, cachedShare, reason }) => {
    const cachedTokens = Math.floor(promptTokens * cachedShare);
    const logprobs = withLogprobs && kind === 'chat';
    const stream_options = { include_usage: usageAlone, continuous_usage_stats: counts };
    const fields = {
      n: choices,
      stream: true,
      stream_options,
      ...(logprobs ? { logprobs, top_logprobs: 20 } : {}),
    };
    // Without counts on the wire, a token is each log probability, or else each delta.
    let completionTokens = 0;
    const tokens = deltas.map((delta): GenerationEvent => ({
      type: 'token',
      choice: delta.choice % choices,
      text: delta.text,
      completionTokens: (completionTokens += counts || !logprobs ? 1 : delta.logprobs.length),
      logprobs: logprobs ? delta.logprobs : null,
    }));
    const finishes = Array.from({ length: choices }, (_, choice): GenerationEvent => ({
      type: 'finish',
      choice,
      reason,
    }));
    const usage = { promptTokens, completionTokens: tokens.length, cachedTokens };
    const events: GenerationEvent[] = [
      {
        type: 'started',
        promptTokens: counts ? promptTokens : null,
        cachedTokens: counts ? cachedTokens : null,
      },
      ...tokens,
      ...finishes,
      { type: 'end', usage, usageSource: 'engine' },
    ];
    return { request: parse(kind, fields, { ...CALLER, internal: true }), events };
  });

function write({ request, events }: Story): Buffer {
  const formatter = new StreamFormatter(CHAT_IDENTITY, request);
  return Buffer.from(events.map((event) => formatter.format(event)).join(KEEP_ALIVE) + DONE);
}

function read(kind: 'chat' | 'text', wire: Buffer, cuts: readonly number[]): GenerationEvent[] {
  const reader = new StreamReader(kind);
  const places = [...cuts.map((cut) => cut % (wire.length + 1)), 0, wire.length].sort((a, b) => a - b);
  const events = places.slice(1).flatMap((to, index) => reader.push(wire.subarray(places[index], to)));
  return [...events, ...reader.end()];
}

test('a stream of ours is read as the events it was written from, wherever its bytes are cut', () => {
  fc.assert(
    fc.property(story, fc.array(fc.nat(), { maxLength: 20 }), (told, cuts) => {
      assert.deepEqual(read(told.request.kind, write(told), cuts), told.events);
    }),
  );
});

test('a stream that comes byte by byte, with CR LF, is read alike', () => {
  fc.assert(
    fc.property(story, (told) => {
      const wire = Buffer.from(write(told).toString().replaceAll('\n', '\r\n'));
      const everywhere = Array.from({ length: wire.length }, (_, index) => index);
      assert.deepEqual(read(told.request.kind, wire, everywhere), told.events);
    }),
    { numRuns: 30 },
  );
});

test('every frame is one line of JSON behind "data: "', () => {
  fc.assert(
    fc.property(story, (told) => {
      const frames = write(told).toString().slice(0, -2).split('\n\n');
      assert.equal(frames.pop(), 'data: [DONE]');
      for (const frame of frames.filter((line) => !line.startsWith(':'))) {
        assert.match(frame, /^data: [^\n\r]+$/);
        assert.ok(JSON.parse(frame.slice(6)));
      }
    }),
  );
});

/** The text of one choice. */
function textOf(events: readonly GenerationEvent[], choice: number): string {
  return events
    .map((event) => (event.type === 'token' && event.choice === choice ? event.text : ''))
    .join('');
}

test('a whole answer of ours holds the text, the finishes and the usage of its events', () => {
  fc.assert(
    fc.property(story, ({ request, events }) => {
      const builder = new AnswerBuilder(CHAT_IDENTITY, request);
      for (const event of events) builder.add(event);
      const back = readAnswer(request.kind, builder.body());
      for (let choice = 0; choice < request.choices; choice++) {
        assert.equal(textOf(back, choice), textOf(events, choice));
      }
      assert.deepEqual(
        back.filter(({ type }) => type === 'finish'),
        events.filter(({ type }) => type === 'finish'),
      );
      assert.deepEqual(back.at(-1), events.at(-1));
    }),
  );
});
