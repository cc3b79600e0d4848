import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { MESSAGES } from '../../../src/protocols/anthropic/protocol.ts';
import { ServiceError, type ErrorCode } from '../../../src/core/errors.ts';
import type { GenerationEvent } from '../../../src/core/generation.ts';
import { call, ending, REQUEST_ID, STARTED, thought, token } from '../responses/samples.ts';
import { accumulate, read, respond, streamOf } from './samples.ts';

const stopped = (stopSequence: string): GenerationEvent[] =>
  ending().map((event) => (event.type === 'finish' ? { ...event, stopSequence } : event));

test('the stop reason says why the text ended', () => {
  const reason = (events: GenerationEvent[]) => {
    const { stop_reason, stop_sequence } = respond({}, [STARTED, ...events]);
    return [stop_reason, stop_sequence];
  };
  assert.deepEqual(reason(ending()), ['end_turn', null]);
  assert.deepEqual(reason(stopped('END')), ['stop_sequence', 'END']);
  assert.deepEqual(reason(ending('length')), ['max_tokens', null]);
  assert.deepEqual(reason(ending('tool_calls')), ['tool_use', null]);
  assert.deepEqual(reason(ending('content_filter')), ['refusal', null]);
});

test('message_start has an estimate of the tokens if the server reports them only at the end', () => {
  const usageAtStart = (promptTokens: number | null, cachedTokens: number | null) => {
    const started: GenerationEvent = { type: 'started', promptTokens, cachedTokens };
    const fields = { messages: [{ role: 'user', content: 'x'.repeat(400) }] };
    const [first] = streamOf(fields, [started, ...ending()]);
    const { input_tokens, cache_read_input_tokens } = first?.message?.usage ?? {};
    return [input_tokens, cache_read_input_tokens];
  };
  assert.deepEqual(usageAtStart(null, null), [100, 0]);
  assert.deepEqual(usageAtStart(9, 2), [7, 2]);
});

test('numbers in arguments are written as the model wrote them', () => {
  const input = '{"id":1234567890123456789,"x":1.0}';
  const whole = read({}).parsed.whole(REQUEST_ID);
  for (const event of [STARTED, ...call('c', 'f', input), ...ending('tool_calls')]) whole.add(event);
  assert(String(whole.body()).includes(`"input":${input}`));
});

test('arguments that are not the JSON of an object are a member of one', () => {
  for (const text of ['{"a":', '[1]', 'x']) {
    const message = respond({}, [STARTED, ...call('c', 'f', text), ...ending('length')]);
    assert.deepEqual(message.content[0]?.['input'], { INVALID_JSON: text });
  }
  const { content } = respond({}, [STARTED, ...call('c', 'f'), ...ending('tool_calls')]);
  assert.deepEqual(content[0]?.['input'], {});
});

test('a call has the name that the caller knows', () => {
  const name = 'x'.repeat(100);
  const fields = { tools: [{ name, input_schema: { type: 'object' } }] };
  const [tool] = read(fields).request.tools;
  const message = respond(fields, [STARTED, ...call('c', tool?.name ?? ''), ...ending('tool_calls')]);
  assert.equal(message.content[0]?.['name'], name);
});

test('omitted thinking is only in its signature', () => {
  const fields = { thinking: { type: 'adaptive', display: 'omitted' } };
  const events = [STARTED, thought('A thought.'), token('Hi'), ...ending()];
  for (const message of [respond(fields, events), accumulate(streamOf(fields, events))]) {
    assert.equal(message.content[0]?.['thinking'], '');
    const history = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: message.content },
      { role: 'user', content: 'b' },
    ];
    const turn = read({ messages: history }).messages[1];
    assert.ok(turn?.role === 'assistant');
    assert.equal(turn.reasoning, 'A thought.');
  }
  assert.ok(!JSON.stringify(streamOf(fields, events)).includes('A thought.'));
});

test('a client that waits gets pings, even before the first event', () => {
  const stream = read({}).parsed.stream(REQUEST_ID);
  assert.equal(stream.keepAlive(), 'event: ping\ndata: {"type":"ping"}\n\n');
  stream.format(STARTED);
  assert.equal(stream.keepAlive(), 'event: ping\ndata: {"type":"ping"}\n\n');
});

test('each error has the status and the type by which clients decide what to do', () => {
  const seen = (code: ErrorCode) => {
    const error = new ServiceError(code, 'Why.');
    const body = JSON.parse(MESSAGES.errorBody(error, 'id')) as { error: { type: string } };
    assert.deepEqual(body, {
      type: 'error',
      error: { type: body.error.type, message: 'Why.' },
      request_id: 'id',
    });
    return [MESSAGES.errorStatus(error), body.error.type];
  };
  assert.deepEqual(seen('invalid_value'), [400, 'invalid_request_error']);
  assert.deepEqual(seen('invalid_api_key'), [401, 'authentication_error']);
  assert.deepEqual(seen('model_not_allowed'), [403, 'permission_error']);
  assert.deepEqual(seen('model_not_found'), [404, 'not_found_error']);
  assert.deepEqual(seen('request_too_large'), [413, 'request_too_large']);
  assert.deepEqual(seen('tokens_per_minute'), [429, 'rate_limit_error']);
  assert.deepEqual(seen('internal_error'), [500, 'api_error']);
  assert.deepEqual(seen('queue_full'), [529, 'overloaded_error']);
  assert.deepEqual(seen('response_timeout'), [504, 'timeout_error']);
});

test('the error for a long prompt has both numbers in the words that agents read', () => {
  const messages: [string, string][] = [
    [
      "This model's maximum context length is 4096 tokens; the prompt has 5000, which leaves no room for a completion.",
      '5000 tokens > 4096 maximum',
    ],
    [
      "This model's maximum context length is 4096 tokens; `messages[3].content` has at least 9000, which leaves no room for a completion.",
      '9000 tokens > 4096 maximum',
    ],
    [
      "This model's maximum context length is 4096 tokens. However, you requested 6000 tokens (5000 in the messages, 1000 in the completion).",
      '5000 tokens > 4096 maximum',
    ],
    [
      'the request exceeds the available context size (4096 tokens), try increasing it',
      'the request exceeds the available context size (4096 tokens), try increasing it',
    ],
    [
      'request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it',
      '5000 tokens > 4096 maximum',
    ],
  ];
  for (const [message, expected] of messages) {
    const body = MESSAGES.errorBody(new ServiceError('context_length_exceeded', message), 'id');
    const { error } = JSON.parse(body) as { error: { message: string } };
    assert.equal(error.message, `prompt is too long: ${expected}`);
  }
});

test('limits have the names and times of the API', () => {
  const limits = ['x-ratelimit-limit-tokens', '10', 'x-ratelimit-reset-tokens', '1h30m0s'];
  const headers = MESSAGES.headers?.('id', limits) ?? [];
  assert.deepEqual(headers.slice(0, 7), [
    'x-request-id',
    'id',
    'request-id',
    'id',
    'anthropic-ratelimit-tokens-limit',
    '10',
    'anthropic-ratelimit-tokens-reset',
  ]);
  const reset = headers[7] ?? '';
  assert.equal(new Date(reset).toISOString(), reset);
});

const words = fc.string({ unit: fc.constantFrom('a', ' ', '"', '\\', '\n', '🙂', '{', '}') });
const parts = fc.array(words, { minLength: 1, maxLength: 4 });
const reasoning = parts.map((texts) => texts.map(thought));
const texts = parts.map((each) => each.map(token));
const argumentsText = fc.oneof(
  fc.dictionary(fc.string(), fc.jsonValue()).map((value) => JSON.stringify(value)),
  words,
);
const calls = fc
  .tuple(fc.stringMatching(/^call_[a-z]{1,8}$/), fc.constantFrom('f', 'fs.read'), argumentsText)
  .map(([id, name, text]) => call(id, name, text.slice(0, 5), text.slice(5)));

test('any message, streamed or not, can be sent back, and means the same', () => {
  const output = fc
    .array(fc.oneof(reasoning, texts, calls), { maxLength: 6 })
    .filter((list) => new Set(list.flat().flatMap(idOf)).size === list.flat().flatMap(idOf).length);
  fc.assert(
    fc.property(output, (list) => {
      const events = [STARTED, ...list.flat(), ...ending()];
      const whole = respond({}, events);
      const calls = whole.content.filter(({ type }) => type === 'tool_use');
      const results = calls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: 'ok' }));
      const { messages, notes } = read({
        messages: [
          { role: 'user', content: 'a' },
          { role: 'assistant', content: whole.content },
          { role: 'user', content: [...results, { type: 'text', text: 'b' }] },
        ],
      });
      assert.deepEqual(notes, []);
      const turn = messages[1];
      assert.ok(turn?.role === 'assistant');
      const sent = joined(list.flat());
      assert.deepEqual([turn.content ?? '', turn.reasoning ?? ''], [sent.text, sent.reasoning]);
      assert.deepEqual(
        turn.toolCalls.map(({ id, name, arguments: text }) => [id, name, JSON.parse(text)]),
        sent.calls.map(({ id, name, text }) => [id, name, objectOf(text)]),
      );
      if (sent.calls.some(({ text }) => !isObject(text) && text !== '')) return;
      // Signatures differ each time.
      const unsigned = (content: object[]) => content.map((block) => ({ ...block, signature: null }));
      assert.deepEqual(unsigned(accumulate(streamOf({}, events)).content), unsigned(whole.content));
    }),
  );
});

const idOf = (event: GenerationEvent): string[] => (event.type === 'tool-call' ? [event.id] : []);

/** Returns what a generation says: adjacent parts of a kind are one, and others are separated by an empty line. */
function joined(events: readonly GenerationEvent[]) {
  const runs: { kind: string; text: string }[] = [];
  const calls: { id: string; name: string; text: string }[] = [];
  for (const event of events) {
    if (event.type === 'tool-call') {
      calls.push({ id: event.id, name: event.name, text: '' });
      runs.push({ kind: 'call', text: '' });
    } else if (event.type === 'tool-arguments') {
      const last = calls.at(-1);
      if (last !== undefined) last.text += event.text;
    } else if ((event.type === 'token' || event.type === 'reasoning') && event.text !== '') {
      const last = runs.at(-1);
      if (last?.kind === event.type) last.text += event.text;
      else runs.push({ kind: event.type, text: event.text });
    }
  }
  const textOf = (kind: string) =>
    runs
      .filter((run) => run.kind === kind)
      .map(({ text }) => text)
      .join('\n\n');
  return { text: textOf('token'), reasoning: textOf('reasoning'), calls };
}

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

function objectOf(text: string): unknown {
  if (text === '') return {};
  return isObject(text) ? (JSON.parse(text) as unknown) : { INVALID_JSON: text };
}
