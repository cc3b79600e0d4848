import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import {
  countTokens,
  NO_USAGE,
  type EngineEvent,
  type GenerationEvent,
  type CompletionRequest,
  type TextEvent,
  type TokenLogprob,
  type Usage,
} from '../../../src/core/generation.ts';
import { UsageMeter } from '../../../src/replicas/wire/usage-meter.ts';
import { packResponse } from '../../../src/json/packed-response.ts';
import {
  readPackedResponse,
  readResponse,
  StreamReader,
} from '../../../src/replicas/wire/response-reader.ts';
import { ResponseBuilder, StreamFormatter } from '../../../src/protocols/openai/response.ts';
import { KEEP_ALIVE } from '../../../src/support/event-stream.ts';
import { bodyText, CHAT_IDENTITY, parse } from './samples.ts';

const wellFormed = fc.string({ unit: 'binary', minLength: 1 });
const bytes = fc.option(fc.array(fc.nat(255), { maxLength: 4 }));
const logprob = fc.double({ min: -100, max: 0, noNaN: true }).map((value) => value + 0);
const entry = fc.record({ token: wellFormed, logprob, bytes }, { noNullPrototype: true });
/** Sorted by probability. */
const top = fc.array(entry, { maxLength: 3 }).map((entries) => entries.sort((a, b) => b.logprob - a.logprob));
const chatLogprobs: fc.Arbitrary<TokenLogprob[]> = fc.array(
  fc.record({ token: wellFormed, logprob, bytes, top }, { noNullPrototype: true }),
  { minLength: 1, maxLength: 3 },
);

interface Item {
  type: 'token' | 'reasoning' | 'call';
  choice: number;
  text: string;
  logprobs: TokenLogprob[];
  /** Only calls have an ID, a name and parts. */
  id: string;
  name: string;
  parts: string[];
}

const item: fc.Arbitrary<Item> = fc.record({
  type: fc.constantFrom('token' as const, 'token' as const, 'reasoning' as const, 'call' as const),
  choice: fc.nat(2),
  text: wellFormed,
  logprobs: chatLogprobs,
  id: wellFormed,
  name: wellFormed,
  // The next call is sent when the arguments are a complete object.
  parts: wellFormed.map((text) => ['{"a":', JSON.stringify(text), '}']),
});

/** An event with generated tokens. */
type Part = Extract<GenerationEvent, { completionTokens: number }>;

/** Converts items into events of tokens. Text completions have neither reasoning nor calls. */
function partsOf(items: readonly Item[], kind: 'chat' | 'text', choices: number, logprobs: boolean): Part[] {
  const calls = [0, 0, 0];
  return items.flatMap((each): Part[] => {
    const choice = each.choice % choices;
    const counts = { choice, completionTokens: 0 };
    const list = logprobs ? each.logprobs : null;
    if (kind === 'text') return [{ type: 'token', text: each.text, logprobs: list, ...counts }];
    if (each.type !== 'call') return [{ type: each.type, text: each.text, logprobs: list, ...counts }];
    const call = calls[choice] ?? 0;
    calls[choice] = call + 1;
    return [
      // The reader replaces an ID that repeats.
      { type: 'tool-call', call, id: `${call} ${each.id}`, name: each.name, ...counts },
      ...each.parts.map((text): Part => ({ type: 'tool-arguments', call, text, ...counts })),
    ];
  });
}

interface Generation {
  request: CompletionRequest;
  events: GenerationEvent[];
}

/** A generation of 1 to 3 interleaved choices. */
const generations: fc.Arbitrary<Generation> = fc
  .record({
    kind: fc.constantFrom('chat' as const, 'text' as const),
    usageAlone: fc.boolean(),
    withLogprobs: fc.boolean(),
    promptTokens: fc.nat(1000),
    cachedShare: fc.double({ min: 0, max: 1, noNaN: true }),
    choices: fc.integer({ min: 1, max: 3 }),
    items: fc.array(item, { minLength: 1, maxLength: 12 }),
    reason: fc.constantFrom('stop' as const, 'length' as const),
  })
  .map(({ kind, usageAlone, withLogprobs, choices, items, promptTokens, cachedShare, reason }) => {
    const cachedTokens = Math.floor(promptTokens * cachedShare);
    const logprobs = withLogprobs && kind === 'chat';
    const stream_options = { include_usage: usageAlone };
    const fields = {
      n: choices,
      stream: true,
      stream_options,
      ...(logprobs ? { logprobs, top_logprobs: 20 } : {}),
    };
    // Each log probability counts as a token, and so does each delta without log probabilities.
    const used: Usage = { ...NO_USAGE };
    const parts = partsOf(items, kind, choices, logprobs);
    for (const part of parts) {
      const listed = 'logprobs' in part ? part.logprobs : null;
      part.completionTokens = used.completionTokens + (listed?.length ?? 1);
      countTokens(used, part);
    }
    const finishes = Array.from({ length: choices }, (_, choice): GenerationEvent => {
      const called = parts.some((part) => part.choice === choice && part.type === 'tool-call');
      const own = called && reason === 'stop' ? 'tool_calls' : reason;
      return { type: 'finish', choice, reason: own, stopSequence: null };
    });
    const usage = { ...used, promptTokens, cachedTokens };
    const events: GenerationEvent[] = [
      { type: 'started', promptTokens: null, cachedTokens: null },
      ...parts,
      ...finishes,
      { type: 'end', usage, usageSource: 'engine' },
    ];
    return { request: parse(kind, fields), events };
  });

function write({ request, events }: Generation): Buffer {
  const formatter = new StreamFormatter(CHAT_IDENTITY, request);
  return Buffer.from(events.map((event) => formatter.format(event)).join(KEEP_ALIVE) + formatter.end);
}

function read(kind: 'chat' | 'text', wire: Buffer, cuts: readonly number[]): EngineEvent[] {
  const reader = new StreamReader(kind);
  const offsets = [...cuts.map((cut) => cut % (wire.length + 1)), 0, wire.length].sort((a, b) => a - b);
  const events = offsets.slice(1).flatMap((to, index) => reader.push(wire.subarray(offsets[index], to)));
  return [...events, ...reader.end()];
}

test('a formatted stream is read as the same events, in chunks of any size', () => {
  fc.assert(
    fc.property(generations, fc.array(fc.nat(), { maxLength: 20 }), (generation, cuts) => {
      assert.deepEqual(read(generation.request.kind, write(generation), cuts), generation.events);
    }),
  );
});

test('a stream in single bytes with CR LF is read as the same events', () => {
  fc.assert(
    fc.property(generations, (generation) => {
      const wire = Buffer.from(write(generation).toString().replaceAll('\n', '\r\n'));
      const everywhere = Array.from({ length: wire.length }, (_, index) => index);
      assert.deepEqual(read(generation.request.kind, wire, everywhere), generation.events);
    }),
    { numRuns: 30 },
  );
});

test('every frame is one line of JSON after "data: "', () => {
  fc.assert(
    fc.property(generations, (generation) => {
      const frames = write(generation).toString().slice(0, -2).split('\n\n');
      assert.equal(frames.pop(), 'data: [DONE]');
      for (const frame of frames.filter((line) => !line.startsWith(':'))) {
        assert.match(frame, /^data: [^\n\r]+$/);
        assert.ok(JSON.parse(frame.slice(6)));
      }
    }),
  );
});

/** Returns the text, the reasoning and the calls of a choice. */
function contentOf(events: readonly EngineEvent[], choice: number) {
  const content = { text: '', reasoning: '', calls: [] as { id: string; name: string; arguments: string }[] };
  for (const event of events) {
    if (!('completionTokens' in event) || event.choice !== choice) continue;
    if (event.type === 'token') content.text += event.text;
    else if (event.type === 'reasoning') content.reasoning += event.text;
    else if (event.type === 'tool-call') {
      assert.equal(event.call, content.calls.length);
      content.calls.push({ id: event.id, name: event.name, arguments: '' });
    } else {
      const call = content.calls.at(-1);
      assert.ok(call && event.call === content.calls.length - 1);
      call.arguments += event.text;
    }
  }
  return content;
}

test('a non-streaming response has the content, the finish reasons and the usage of the events', () => {
  fc.assert(
    fc.property(generations, ({ request, events }) => {
      const builder = new ResponseBuilder(CHAT_IDENTITY, request);
      for (const event of events) builder.add(event);
      const body = bodyText(builder);
      const onThread = structuredClone(packResponse(Buffer.from(body)));
      const packed = readPackedResponse(request.kind, onThread, new UsageMeter(), request.choices);
      const read = readResponse(request.kind, body);
      for (let choice = 0; choice < request.choices; choice++) {
        assert.deepEqual(contentOf(read, choice), contentOf(events, choice));
        assert.deepEqual(contentOf(packed, choice), contentOf(events, choice));
      }
      assert.deepEqual(packed.at(-1), read.at(-1));
      assert.deepEqual(
        read.filter(({ type }) => type === 'finish'),
        events.filter(({ type }) => type === 'finish'),
      );
      assert.deepEqual(read.at(-1), events.at(-1));
    }),
  );
});

/** Returns an event with log probabilities. */
function withLogprobs(tokens: number, token: string): TextEvent {
  const logprobs = Array.from({ length: tokens }, () => ({ token, logprob: 0, bytes: [97], top: [] }));
  return { type: 'token', choice: 0, text: 'a', completionTokens: tokens, logprobs };
}

test('a response can have any number of log probabilities in one event', () => {
  const builder = new ResponseBuilder(CHAT_IDENTITY, parse('chat', { logprobs: true }));
  builder.add(withLogprobs(200_000, 'a'));
  assert.equal(bodyText(builder).split('"logprob":').length - 1, 200_000);
});

test('log probabilities are read from a packed response in parts of a few tokens, with none lost', () => {
  const builder = new ResponseBuilder(CHAT_IDENTITY, parse('chat', { logprobs: true }));
  builder.add(withLogprobs(1000, 'a'));
  builder.add({ type: 'finish', choice: 0, reason: 'stop', stopSequence: null });
  const events = readPackedResponse(
    'chat',
    packResponse(Buffer.from(bodyText(builder))),
    new UsageMeter(),
    1,
  );
  const parts = events.flatMap((event) => (event.type === 'token' ? [event.logprobs?.length ?? 0] : []));
  assert.equal(
    parts.reduce((sum, tokens) => sum + tokens, 0),
    1000,
  );
  assert.ok(Math.max(...parts) < 100);
});

test('a response that is not a stream holds at most 64 MiB of log probabilities, and is written while they arrive', () => {
  for (const kind of ['chat', 'text'] as const) {
    const builder = new ResponseBuilder(CHAT_IDENTITY, parse(kind, { logprobs: kind === 'chat' ? true : 1 }));
    const mebibyte = withLogprobs(1, 'a'.repeat(1_048_576));
    const stringify = mock.method(JSON, 'stringify');
    for (let added = 1; added < 64; added++) {
      builder.add(mebibyte);
      assert.ok(builder.heldBytes >= added * 1_048_576 && builder.heldBytes < (added + 3) * 1_048_576);
    }
    const written = stringify.mock.callCount();
    builder.body();
    assert.ok(
      stringify.mock.callCount() - written < 5,
      'only the rest of the response is written at the end',
    );
    stringify.mock.restore();
    assert.throws(() => builder.add(mebibyte), {
      code: 'response_too_large',
      message: /Set `stream` to true/,
    });
  }
});
