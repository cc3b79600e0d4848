import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServiceError } from '../../../src/core/errors.ts';
import type { CompletionRequest, GenerationEvent, TokenLogprob } from '../../../src/core/generation.ts';
import { ResponseBuilder, StreamFormatter } from '../../../src/protocols/openai/response.ts';
import {
  bodyText,
  chat,
  CHAT_IDENTITY,
  end,
  finish,
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

function respond(request: CompletionRequest, events: readonly GenerationEvent[]): string {
  const builder = new ResponseBuilder(request.kind === 'chat' ? CHAT_IDENTITY : TEXT_IDENTITY, request);
  for (const event of events) builder.add(event);
  return bodyText(builder);
}

const CHAT =
  'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"ns/m","choices":[';
const TEXT = 'data: {"id":"cmpl-1","object":"text_completion","created":1,"model":"ns/m","choices":[';

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

test('an empty part of the arguments of a call is not sent', () => {
  const { request } = chat({ stream: true });
  const events = [started(), toolCall('call_1', 'f'), toolArguments('{}'), toolArguments(''), finish('stop')];
  assert.deepEqual(stream(request, [...events, end]), stream(request, [...events.toSpliced(3, 1), end]));
});

test('a message with text and calls has both', () => {
  const events = [started(), token('Let me see.'), toolCall('call_1', 'f'), finish('tool_calls'), end];
  const { content, tool_calls } = JSON.parse(respond(chat().request, events)).choices[0].message;
  assert.deepEqual([content, tool_calls.length], ['Let me see.', 1]);
});

test('the choices of a response have their own texts and finish reasons', () => {
  const { request } = text({ prompt: ['a', 'b'] });
  const events = [started(), token('y', 1), token('x', 0), finish('length', 1), finish('stop', 0), end];
  const { choices } = JSON.parse(respond(request, events)) as {
    choices: { index: number; text: string; finish_reason: string }[];
  };
  assert.deepEqual(
    choices.map((choice) => [choice.index, choice.text, choice.finish_reason]),
    [
      [0, 'x', 'stop'],
      [1, 'y', 'length'],
    ],
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
