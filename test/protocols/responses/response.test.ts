import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { ServiceError, type ErrorCode } from '../../../src/core/errors.ts';
import { NO_USAGE, type GenerationEvent } from '../../../src/core/generation.ts';
import { Notes } from '../../../src/core/notes.ts';
import { CustomInput } from '../../../src/protocols/responses/custom-input.ts';
import { RESPONSES } from '../../../src/protocols/responses/protocol.ts';
import {
  call,
  ending,
  eventsOf,
  read,
  REQUEST_ID,
  respond,
  STARTED,
  thought,
  token,
  type StreamEvent,
} from './samples.ts';

/** Custom tools, and one of a namespace. */
const TOOLS = [
  { type: 'custom', name: 'patch' },
  { type: 'function', name: 'f' },
  {
    type: 'namespace',
    name: 'n',
    tools: [
      { type: 'function', name: 'g' },
      { type: 'custom', name: 'c' },
    ],
  },
];

function streamOf(fields: object, events: readonly GenerationEvent[]): StreamEvent[] {
  const stream = read(fields).parsed.stream(REQUEST_ID);
  return eventsOf(events.map((event) => stream.format(event)).join('') + stream.end);
}

test('a response repeats the settings of its request and has its usage', () => {
  const fields = {
    instructions: 'Be brief.',
    metadata: { a: '1' },
    tools: TOOLS,
    tool_choice: 'auto',
    temperature: 0.5,
    max_output_tokens: 9,
    reasoning: { effort: 'low' },
    prompt_cache_key: 'k',
    store: true,
  };
  const response = respond(read(fields), [STARTED, token('Hi'), ...ending()]);
  assert.partialDeepStrictEqual(response, {
    instructions: 'Be brief.',
    metadata: { a: '1' },
    tool_choice: 'auto',
    temperature: 0.5,
    max_output_tokens: 9,
    reasoning: { effort: 'low', summary: null },
    prompt_cache_key: 'k',
    store: false,
  });
  assert.deepEqual(response['usage'], {
    input_tokens: 9,
    input_tokens_details: { cached_tokens: 4 },
    output_tokens: 3,
    output_tokens_details: { reasoning_tokens: 1 },
    total_tokens: 12,
  });
});

test('a response that was cut off is incomplete, as is its last item', () => {
  for (const [reason, why] of [
    ['length', 'max_output_tokens'],
    ['content_filter', 'content_filter'],
  ] as const) {
    const response = respond(read({}), [STARTED, thought('Hm'), token('Hi'), ...ending(reason)]);
    assert.deepEqual([response.status, response['incomplete_details']], ['incomplete', { reason: why }]);
    assert.deepEqual(
      response.output.map(({ status }) => status),
      ['completed', 'incomplete'],
    );
  }
});

test('reasoning is only sealed if the request includes it', () => {
  const events = [STARTED, thought('A thought.'), token('Hi'), ...ending()];
  assert.ok(!('encrypted_content' in (respond(read({}), events).output[0] ?? {})));
  const { output } = respond(read({ include: ['reasoning.encrypted_content'] }), events);
  const sealed = output[0]?.['encrypted_content'];
  assert.ok(typeof sealed === 'string' && !sealed.includes('thought'));
  const [message] = read({
    input: [
      { type: 'reasoning', summary: [], encrypted_content: sealed },
      { role: 'user', content: 'a' },
    ],
  }).messages;
  assert.ok(message?.role === 'assistant');
  assert.equal(message.reasoning, 'A thought.');
});

/** Parts of a text, at any positions. */
const partsOf = (text: fc.Arbitrary<string>): fc.Arbitrary<string[]> =>
  fc.tuple(text, fc.array(fc.nat(40), { maxLength: 12 })).map(([whole, cuts]) => {
    const points = Array.from(whole);
    const at = [...new Set(cuts.filter((cut) => cut < points.length))].sort((a, b) => a - b);
    return [0, ...at].map((from, index) => points.slice(from, at[index]).join(''));
  });

/** Texts with what JSON escapes. */
const awkward = fc.string({
  unit: fc.constantFrom('a', '"', '\\', '\n', '\u0001', '🙂', 'é', '/', 'u', '{'),
});

/** The JSON of a text, with or without escapes for characters that do not need them. */
const jsonOf = (text: string, ascii: boolean): string => {
  const json = JSON.stringify({ input: text });
  return ascii
    ? json.replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    : json;
};

test('the input of a custom tool is unwrapped from its arguments, wherever they are split', () => {
  const cases = fc
    .tuple(awkward, fc.boolean())
    .chain(([text, ascii]) => partsOf(fc.constant(jsonOf(text, ascii))).map((parts) => ({ text, parts })));
  fc.assert(
    fc.property(cases, ({ text, parts }) => {
      const events = streamOf({ tools: TOOLS }, [
        STARTED,
        ...call('1', 'patch', ...parts),
        ...ending('tool_calls'),
      ]);
      const deltas = events.filter(({ type }) => type === 'response.custom_tool_call_input.delta');
      assert.equal(deltas.map(({ delta }) => delta).join(''), text);
      const done = events.find(({ type }) => type === 'response.custom_tool_call_input.done');
      assert.equal(done?.['input'], text);
      for (const { delta } of deltas) assert.ok(String(delta).isWellFormed());
    }),
  );
});

test('long instructions are written once, on another thread', async () => {
  const instructions = '"\n'.repeat(600_000);
  const { parsed } = read({ instructions });
  const stringify = mock.method(JSON, 'stringify');
  try {
    await parsed.prepare?.();
    const stream = parsed.stream(REQUEST_ID);
    const events = eventsOf(
      [STARTED, token('Hi'), ...ending()].map((event) => stream.format(event)).join(''),
    );
    const repeated = events.flatMap(
      ({ response }) => (response as { instructions: string } | undefined)?.instructions ?? [],
    );
    assert.deepEqual([repeated.length, new Set(repeated)], [3, new Set([instructions])]);
    assert.ok(stringify.mock.calls.every(({ result }) => (result?.length ?? 0) < 100_000));
  } finally {
    mock.reset();
  }
});

test('each part of the input of a custom tool is read once, however long the input is', () => {
  // If each part took as long as the input before it, this would take minutes.
  const parts = Array.from({ length: 150_000 }, () => '+a\\\\');
  for (const start of ['{"input":"', '{"other":"', `${' '.repeat(200)}{"input":"`]) {
    const input = new CustomInput();
    for (const part of [start, ...parts, '"}']) input.push(part);
    input.end();
    assert.ok(input.text.length >= 3 * parts.length);
  }
});

test('arguments of a custom tool without the field are its input as they are', () => {
  for (const [text, input] of [
    ['{"patch":"a"}', '{"patch":"a"}'],
    ['plain', 'plain'],
    ['{"other":1,"input":"a"}', 'a'],
    ['{"input":"cut \\u00', 'cut '],
  ] as const) {
    const { output } = respond(read({ tools: TOOLS }), [STARTED, ...call('1', 'patch', text), ...ending()]);
    assert.equal(output[0]?.['input'], input);
  }
});

test('a call has the name and the namespace of its tool apart', () => {
  const { output } = respond(read({ tools: TOOLS }), [
    STARTED,
    ...call('1', 'n__g', '{}'),
    ...call('2', 'n__c', '{"input":"x"}'),
    ...call('3', 'unknown', '{}'),
    ...ending('tool_calls'),
  ]);
  assert.deepEqual(
    output.map(({ type, name, namespace, call_id }) => [type, name, namespace, call_id]),
    [
      ['function_call', 'g', 'n', '1'],
      ['custom_tool_call', 'c', 'n', '2'],
      ['function_call', 'unknown', undefined, '3'],
    ],
  );
});

test('each event has the next number, and the events of an item build the item that ends them', () => {
  const events = streamOf({ tools: TOOLS, include: ['reasoning.encrypted_content'] }, [
    STARTED,
    thought('Hm'),
    thought('.'),
    token('Two'),
    token(' calls.'),
    ...call('1', 'f', '{"a"', ':1}'),
    ...call('2', 'patch', '{"input":"x'),
    ...ending('length'),
  ]);
  events.forEach(({ sequence_number }, index) => assert.equal(sequence_number, index));
  const done = events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item);
  const last = events.at(-1);
  assert.equal(last?.type, 'response.incomplete');
  assert.deepEqual(done, (last['response'] as { output: unknown }).output);
  const textOf = (type: string) =>
    events
      .filter((event) => event.type === type)
      .map(({ delta }) => delta)
      .join('');
  assert.equal(textOf('response.reasoning_text.delta'), 'Hm.');
  assert.equal(textOf('response.output_text.delta'), 'Two calls.');
  assert.equal(textOf('response.function_call_arguments.delta'), '{"a":1}');
});

test('a client that waits gets the first events, then events that it ignores', () => {
  const stream = read({}).parsed.stream(REQUEST_ID);
  const frames = stream.keepAlive() + stream.keepAlive() + stream.format(STARTED) + stream.format(token('a'));
  assert.deepEqual(
    eventsOf(frames).map(({ type, sequence_number }) => [sequence_number, type]),
    [
      [0, 'response.created'],
      [1, 'response.in_progress'],
      [2, 'keepalive'],
      [3, 'response.output_item.added'],
      [4, 'response.content_part.added'],
      [5, 'response.output_text.delta'],
    ],
  );
});

test('a stream that fails ends with the code by which clients decide whether to try again', () => {
  const codes: Partial<Record<ErrorCode, string>> = {
    context_length_exceeded: 'context_length_exceeded',
    insufficient_quota: 'insufficient_quota',
    queue_full: 'server_is_overloaded',
    tokens_per_minute: 'rate_limit_exceeded',
    invalid_value: 'invalid_prompt',
    engine_unavailable: 'server_error',
    internal_error: 'server_error',
    invalid_api_key: 'invalid_api_key',
  };
  for (const [code, expected] of Object.entries(codes)) {
    const stream = read({}).parsed.stream(REQUEST_ID);
    const error = new ServiceError(code as ErrorCode, 'Why.');
    const events = eventsOf(
      stream.format(STARTED) + stream.format(thought('Hm')) + stream.error(error, NO_USAGE),
    );
    const last = events.at(-1);
    assert.equal(last?.type, 'response.failed');
    assert.equal(last.sequence_number, events.length - 1);
    const { status, error: failure, output } = last['response'] as Record<string, unknown>;
    assert.deepEqual([status, failure], ['failed', { code: expected, message: 'Why.' }]);
    assert.deepEqual(
      (output as { status: string }[]).map((item) => item.status),
      ['incomplete'],
    );
  }
  const unopened = eventsOf(
    read({}).parsed.stream(REQUEST_ID).error(new ServiceError('queue_full', 'a'), NO_USAGE),
  );
  assert.deepEqual(
    unopened.map(({ type }) => type),
    ['response.created', 'response.in_progress', 'response.failed'],
  );
});

test('an error that belongs to no event has the number after the frames before it', () => {
  const tools = [
    { type: 'function', name: 'f', parameters: { properties: { sequence_number: { const: 9 } } } },
  ];
  const stream = read({ tools }).parsed.stream(REQUEST_ID);
  const error = new ServiceError('queue_full', 'a');
  const numberAfter = (sent: string) => {
    const [event] = eventsOf(RESPONSES.errorFrames(error, NO_USAGE, sent));
    const { sequence_number, ...rest } = event ?? assert.fail();
    assert.deepEqual(rest, { type: 'error', code: 'server_is_overloaded', message: 'a', param: null });
    return sequence_number;
  };
  assert.equal(numberAfter(''), 0);
  const first = stream.format(STARTED);
  assert.equal(numberAfter(first), 2);
  assert.equal(numberAfter(stream.format(token('\ndata: {"type":"a","sequence_number":7'))), 5);
});

test('log probabilities are in the deltas and in the text', () => {
  const logprob = { token: 'a', logprob: -0.5, bytes: [97] };
  const include = ['message.output_text.logprobs'];
  const event: GenerationEvent = {
    type: 'token',
    choice: 0,
    text: 'a',
    completionTokens: 1,
    logprobs: [{ ...logprob, top: [logprob, logprob] }],
  };
  const events = streamOf({ include, top_logprobs: 1 }, [STARTED, event, ...ending()]);
  const expected = [{ ...logprob, top_logprobs: [logprob] }];
  const delta = events.find(({ type }) => type === 'response.output_text.delta');
  assert.deepEqual(delta?.['logprobs'], expected);
  const part = events.find(({ type }) => type === 'response.content_part.done')?.['part'] as {
    logprobs: unknown;
  };
  assert.deepEqual(part.logprobs, expected);
});

/** One turn of a model: reasoning, text and calls, each split at any positions. */
const turns = fc.record({
  reasoning: fc.oneof(partsOf(fc.string({ minLength: 1 })), fc.constant<string[]>([])),
  text: fc.oneof(partsOf(fc.string({ minLength: 1 })), fc.constant<string[]>([])),
  calls: fc.array(
    fc.oneof(
      fc.tuple(
        fc.constantFrom('f', 'n__g', 'unknown'),
        fc.json().map((json) => `{"a":${json}}`),
      ),
      fc.tuple(
        fc.constantFrom('patch', 'n__c'),
        awkward.map((text) => JSON.stringify({ input: text })),
      ),
    ),
    { maxLength: 3 },
  ),
  seal: fc.boolean(),
});

test('any response can be sent back as input, and means the same', () => {
  fc.assert(
    fc.property(turns, ({ reasoning, text, calls, seal }) => {
      const include = seal ? ['reasoning.encrypted_content'] : [];
      const { output } = respond(read({ tools: TOOLS, include }), [
        STARTED,
        ...reasoning.map(thought),
        ...text.map(token),
        ...calls.flatMap(([name, json], index) => call(`call_${index}`, name, json)),
        ...ending(calls.length > 0 ? 'tool_calls' : 'stop'),
      ]);
      const results = calls.map((_, index) => ({
        type: 'function_call_output',
        call_id: `call_${index}`,
        output: 'ok',
      }));
      const input = [{ role: 'user', content: 'a' }, ...output, ...results];
      const { messages } = read({ tools: TOOLS, input }, new Notes(true));
      assert.deepEqual(messages.slice(0, 2), [
        { role: 'user', content: 'a' },
        {
          role: 'assistant',
          content: text.length === 0 && calls.length > 0 ? null : text.join(''),
          reasoning: reasoning.length === 0 ? null : reasoning.join(''),
          toolCalls: calls.map(([name, json], index) => ({ id: `call_${index}`, name, arguments: json })),
        },
      ]);
      assert.equal(messages.length, 2 + calls.length);
    }),
  );
});
