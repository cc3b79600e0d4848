import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServiceError } from '../../src/errors.ts';
import type { CompletionRequest, GenerationEvent, TokenLogprob } from '../../src/generation.ts';
import { ResponseBuilder, StreamFormatter } from '../../src/openai/response.ts';
import { KEEP_ALIVE } from '../../src/event-stream.ts';
import {
  bodyText,
  chat,
  CHAT_IDENTITY,
  end,
  finish,
  reasoning,
  started,
  text,
  TEXT_IDENTITY,
  token,
  toolArguments,
  toolCall,
} from './samples.ts';

/** Returns the frames of a stream, without the blank lines. */
function stream(request: CompletionRequest, events: readonly GenerationEvent[]): string[] {
  const formatter = new StreamFormatter(request.kind === 'chat' ? CHAT_IDENTITY : TEXT_IDENTITY, request);
  return frames(events.map((event) => formatter.format(event)).join('') + formatter.end);
}

function frames(wire: string): string[] {
  assert.ok(wire.endsWith('\n\n'));
  return wire.slice(0, -2).split('\n\n');
}

/** Adds the details that only chats have. */
function withReasoning(total: string, tokens: number): string {
  return `${total.slice(0, -1)},"completion_tokens_details":{"reasoning_tokens":${tokens}}}`;
}

function respond(request: CompletionRequest, events: readonly GenerationEvent[]): string {
  const builder = new ResponseBuilder(request.kind === 'chat' ? CHAT_IDENTITY : TEXT_IDENTITY, request);
  for (const event of events) builder.add(event);
  return bodyText(builder);
}

const CHAT =
  'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"ns/m","choices":[';
const TEXT = 'data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"ns/m","choices":[';
const TEXT_TOTAL =
  '"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":0}}';
const TOTAL = withReasoning(TEXT_TOTAL, 0);
const HELLO = [started(), token('Hel'), token('lo"\n'), finish('stop'), end];

const LOGPROB: TokenLogprob = {
  token: 'é😀',
  logprob: -0.5,
  bytes: [195, 169, 240, 159, 152, 128],
  top: [
    { token: 'é😀', logprob: -0.5, bytes: [195, 169, 240, 159, 152, 128] },
    { token: 'x', logprob: -Infinity, bytes: null },
  ],
};
const withLogprobs = (value: string): GenerationEvent => ({
  type: 'token',
  choice: 0,
  text: value,
  completionTokens: 1,
  logprobs: [LOGPROB],
});

test('chat stream: role, text, then finish and usage in one chunk', () => {
  assert.deepEqual(stream(chat({ stream: true }).request, HELLO), [
    `${CHAT}{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
    `${CHAT}{"index":0,"delta":{"content":"Hel"},"finish_reason":null}]}`,
    `${CHAT}{"index":0,"delta":{"content":"lo\\"\\n"},"finish_reason":null}]}`,
    `${CHAT}{"index":0,"delta":{},"finish_reason":"stop"}],${TOTAL}}`,
    'data: [DONE]',
  ]);
});

test('include_usage: false is the default', () => {
  const { request } = chat({ stream: true, stream_options: { include_usage: false } });
  assert.deepEqual(stream(request, HELLO), stream(chat({ stream: true }).request, HELLO));
});

test('include_usage: true sends null usage in every chunk, then a separate chunk', () => {
  const { request } = chat({ stream: true, stream_options: { include_usage: true } });
  assert.deepEqual(stream(request, HELLO), [
    `${CHAT}{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}`,
    `${CHAT}{"index":0,"delta":{"content":"Hel"},"finish_reason":null}],"usage":null}`,
    `${CHAT}{"index":0,"delta":{"content":"lo\\"\\n"},"finish_reason":null}],"usage":null}`,
    `${CHAT}{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}`,
    `${CHAT}],${TOTAL}}`,
    'data: [DONE]',
  ]);
});

test('every choice has a role chunk, and only the last finish waits for the usage', () => {
  const { request } = chat({ stream: true, n: 2 });
  const events = [started(), token('a', 1), finish('length', 1), token('b', 0), finish('stop', 0), end];
  assert.deepEqual(stream(request, events), [
    `${CHAT}{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
    `${CHAT}{"index":1,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
    `${CHAT}{"index":1,"delta":{"content":"a"},"finish_reason":null}]}`,
    `${CHAT}{"index":1,"delta":{},"finish_reason":"length"}]}`,
    `${CHAT}{"index":0,"delta":{"content":"b"},"finish_reason":null}]}`,
    `${CHAT}{"index":0,"delta":{},"finish_reason":"stop"}],${TOTAL}}`,
    'data: [DONE]',
  ]);
});

test('text stream: text, then finish and usage in one chunk', () => {
  const { request } = text({ stream: true });
  assert.deepEqual(stream(request, HELLO), [
    `${TEXT}{"index":0,"text":"Hel","logprobs":null,"finish_reason":null}]}`,
    `${TEXT}{"index":0,"text":"lo\\"\\n","logprobs":null,"finish_reason":null}]}`,
    `${TEXT}{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}],${TEXT_TOTAL}}`,
    'data: [DONE]',
  ]);
});

test('text stream with a separate usage chunk', () => {
  const { request } = text({ stream: true, stream_options: { include_usage: true } });
  assert.deepEqual(stream(request, [started(), token('a'), finish('length'), end]), [
    `${TEXT}{"index":0,"text":"a","logprobs":null,"finish_reason":null}],"usage":null}`,
    `${TEXT}{"index":0,"text":"","logprobs":null,"finish_reason":"length"}],"usage":null}`,
    `${TEXT}],${TEXT_TOTAL}}`,
    'data: [DONE]',
  ]);
});

test('log probabilities in a stream have continuous text offsets and the requested number of alternatives', () => {
  const events = [started(), withLogprobs('é'), withLogprobs(''), finish('stop'), end];
  const entry = '{"token":"é😀","logprob":-0.5,"bytes":[195,169,240,159,152,128]';
  assert.equal(
    stream(chat({ stream: true, logprobs: true, top_logprobs: 2 }).request, events)[1],
    `${CHAT}{"index":0,"delta":{"content":"é"},"logprobs":{"content":[${entry},"top_logprobs":[${entry}},{"token":"x","logprob":-9999,"bytes":null}]}],"refusal":null},"finish_reason":null}]}`,
  );
  assert.deepEqual(stream(text({ stream: true, logprobs: 1 }).request, events).slice(0, 2), [
    `${TEXT}{"index":0,"text":"é","logprobs":{"tokens":["é😀"],"token_logprobs":[-0.5],"top_logprobs":[{"é😀":-0.5}],"text_offset":[0]},"finish_reason":null}]}`,
    `${TEXT}{"index":0,"text":"","logprobs":{"tokens":["é😀"],"token_logprobs":[-0.5],"top_logprobs":[{"é😀":-0.5}],"text_offset":[2]},"finish_reason":null}]}`,
  ]);
});

test('an error in a stream has the usage that is charged, and a pending finish comes before it', () => {
  const formatter = new StreamFormatter(CHAT_IDENTITY, chat({ stream: true, n: 2 }).request);
  for (const event of [started(9, 4), token('a', 0, 1), finish('stop', 0)]) formatter.format(event);
  const error = new ServiceError('engine_unavailable', 'The engine is gone.', { cause: new Error('secret') });
  assert.deepEqual(
    frames(
      formatter.error(error, { promptTokens: 9, completionTokens: 1, cachedTokens: 4, reasoningTokens: 0 }),
    ),
    [
      `${CHAT}{"index":0,"delta":{},"finish_reason":"stop"}]}`,
      'data: {"error":{"message":"The engine is gone.","type":"server_error","param":null,"code":"engine_unavailable"},"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":0}}}',
      'data: [DONE]',
    ],
  );
});

test('reasoning is `reasoning_content` in deltas and in messages', () => {
  const events = [started(), reasoning('Hm'), reasoning('.'), token('Yes'), finish('stop'), end];
  assert.deepEqual(stream(chat({ stream: true }).request, events), [
    `${CHAT}{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
    `${CHAT}{"index":0,"delta":{"reasoning_content":"Hm"},"finish_reason":null}]}`,
    `${CHAT}{"index":0,"delta":{"reasoning_content":"."},"finish_reason":null}]}`,
    `${CHAT}{"index":0,"delta":{"content":"Yes"},"finish_reason":null}]}`,
    `${CHAT}{"index":0,"delta":{},"finish_reason":"stop"}],${TOTAL}}`,
    'data: [DONE]',
  ]);
  assert.equal(
    respond(chat().request, events),
    `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"ns/m","choices":[{"index":0,"message":{"role":"assistant","content":"Yes","reasoning_content":"Hm.","refusal":null},"logprobs":null,"finish_reason":"stop"}],${TOTAL}}`,
  );
});

const CALL = `${CHAT}{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}`;
const ARGUMENTS = (index: number, value: string) =>
  `${CHAT}{"index":0,"delta":{"tool_calls":[{"index":${index},"function":{"arguments":${JSON.stringify(value)}}}]},"finish_reason":null}]}`;
const CALLS = [
  started(),
  toolCall('call_1', 'f'),
  toolArguments('{"a":'),
  toolArguments(''),
  toolArguments('"\n"}'),
  toolCall('call_2', 'g', 1),
  toolArguments('{}', 1),
  finish('tool_calls'),
  end,
];

test('a call is streamed as its ID and name, then its arguments; in messages it is whole, with null content', () => {
  assert.deepEqual(stream(chat({ stream: true }).request, CALLS), [
    `${CHAT}{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`,
    CALL,
    ARGUMENTS(0, '{"a":'),
    ARGUMENTS(0, '"\n"}'),
    CALL.replace('[{"index":0,"id":"call_1"', '[{"index":1,"id":"call_2"').replace('"f"', '"g"'),
    ARGUMENTS(1, '{}'),
    `${CHAT}{"index":0,"delta":{},"finish_reason":"tool_calls"}],${TOTAL}}`,
    'data: [DONE]',
  ]);
  assert.deepEqual(JSON.parse(respond(chat().request, CALLS)).choices, [
    {
      index: 0,
      message: {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"a":"\n"}' } },
          { id: 'call_2', type: 'function', function: { name: 'g', arguments: '{}' } },
        ],
        refusal: null,
      },
      logprobs: null,
      finish_reason: 'tool_calls',
    },
  ]);
});

test('a message with text and calls has both', () => {
  const body = respond(chat().request, [started(), token('Let me see.'), ...CALLS.slice(1)]);
  const { content, tool_calls } = JSON.parse(body).choices[0].message;
  assert.deepEqual([content, tool_calls.length], ['Let me see.', 2]);
});

test('a keep-alive is a comment', () => {
  assert.equal(KEEP_ALIVE, ': keep-alive\n\n');
});

test('a non-streaming chat response', () => {
  assert.equal(
    respond(chat().request, HELLO),
    `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"ns/m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello\\"\\n","refusal":null},"logprobs":null,"finish_reason":"stop"}],${TOTAL}}`,
  );
});

test('a non-streaming text response to two prompts', () => {
  const { request } = text({ prompt: ['a', 'b'] });
  const events = [started(), token('y', 1), token('x', 0), finish('length', 1), finish('stop', 0), end];
  assert.equal(
    respond(request, events),
    `{"id":"cmpl-1","object":"text_completion","created":1,"model":"ns/m","choices":[{"index":0,"text":"x","logprobs":null,"finish_reason":"stop"},{"index":1,"text":"y","logprobs":null,"finish_reason":"length"}],${TEXT_TOTAL}}`,
  );
});

const logprobs = (body: string): unknown =>
  (JSON.parse(body) as { choices: { logprobs: unknown }[] }).choices[0]?.logprobs;

test('log probabilities in non-streaming responses', () => {
  const events = [started(), withLogprobs('é'), withLogprobs('x'), finish('stop'), end];
  const entry = { token: 'é😀', logprob: -0.5, bytes: [195, 169, 240, 159, 152, 128] };
  assert.deepEqual(logprobs(respond(chat({ logprobs: true }).request, events)), {
    content: [
      { ...entry, top_logprobs: [] },
      { ...entry, top_logprobs: [] },
    ],
    refusal: null,
  });
  assert.deepEqual(logprobs(respond(text({ logprobs: 1 }).request, events)), {
    tokens: ['é😀', 'é😀'],
    token_logprobs: [-0.5, -0.5],
    top_logprobs: [{ 'é😀': -0.5 }, { 'é😀': -0.5 }],
    text_offset: [0, 2],
  });
});

test('a character of several tokens is one code point in the offsets of log probabilities', () => {
  const part = (token: string, ...bytes: number[]) => ({ token, logprob: -1, bytes, top: [] });
  const tokens = [
    part('\uFFFD', 0xf0, 0x9f),
    part('\uFFFD', 0x99, 0x82),
    part('é', 0xc3, 0xa9),
    part('x', 0x78),
  ];
  const event: GenerationEvent = {
    type: 'token',
    choice: 0,
    text: '🙂éx',
    completionTokens: 4,
    logprobs: tokens,
  };
  const events = [started(), event, event, finish('stop'), end];
  const offsets = [0, 1, 1, 2, 3, 4, 4, 5];
  const whole = logprobs(respond(text({ logprobs: 1 }).request, events)) as { text_offset: number[] };
  assert.deepEqual(whole.text_offset, offsets);
  const chunks = stream(text({ logprobs: 1, stream: true }).request, events);
  const streamed = chunks.flatMap((chunk) => /"text_offset":(\[[^\]]*\])/.exec(chunk)?.[1] ?? []);
  assert.deepEqual(
    streamed.flatMap((list) => JSON.parse(list) as number[]),
    offsets,
  );
});
