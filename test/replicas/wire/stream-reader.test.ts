import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServiceError } from '../../../src/core/errors.ts';
import type { EngineEvent, GenerationEvent } from '../../../src/core/generation.ts';
import { readResponse, StreamReader } from '../../../src/replicas/wire/response-reader.ts';
import { MAX_EVENT_BYTES } from '../../../src/support/sse.ts';
import { finish, reasoning, refuses, started, token } from '../../protocols/openai/samples.ts';

/** Reads a stream of these frames. Does not add `[DONE]`. */
function read(kind: 'chat' | 'text', ...frames: (object | string)[]): EngineEvent[] {
  const reader = new StreamReader(kind);
  const wire = frames.map(
    (frame) => `data: ${typeof frame === 'string' ? frame : JSON.stringify(frame)}\n\n`,
  );
  return [...reader.push(Buffer.from(wire.join(''))), ...reader.end()];
}

const delta = (content: string, more: object = {}) => ({
  choices: [{ index: 0, delta: { content }, ...more }],
});
const stop = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
const usage = { prompt_tokens: 9, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 4 } };
const end: GenerationEvent = {
  type: 'end',
  usage: { promptTokens: 9, completionTokens: 3, cachedTokens: 4, reasoningTokens: 0 },
  usageSource: 'engine',
};

test('usage may be in the finish chunk or in a separate chunk', () => {
  const expected = [started(), token('a'), finish('stop'), end];
  assert.deepEqual(read('chat', delta('a'), { ...stop, usage }, '[DONE]'), expected);
  assert.deepEqual(read('chat', delta('a'), stop, { choices: [], usage }, '[DONE]'), expected);
  assert.deepEqual(read('chat', delta('a'), stop, { choices: null, usage }, '[DONE]'), expected);
});

const at = (completion_tokens: number) => ({ usage: { prompt_tokens: 9, completion_tokens } });

test('usage in every chunk sets the count of each token', () => {
  const events = read(
    'chat',
    { ...delta(''), ...at(0) },
    { ...delta('a'), ...at(2) },
    { ...stop, usage },
    '[DONE]',
  );
  assert.deepEqual(events, [started(9, 0), token('a', 0, 2), finish('stop'), end]);
});

test('without usage, deltas are counted and the source is estimated', () => {
  const events = read('chat', delta('a'), delta('b'), stop, '[DONE]');
  assert.deepEqual(events.at(-1), {
    type: 'end',
    usage: { promptTokens: 0, completionTokens: 2, cachedTokens: 0, reasoningTokens: 0 },
    usageSource: 'estimated',
  });
});

test('the progress of a prompt that llama-server reports precedes the first token, if it is plausible', () => {
  // As release b6400 and later send it.
  const progress = (processed: number, cache = 128) => ({
    choices: [{ finish_reason: null, index: 0, delta: { role: 'assistant', content: null } }],
    object: 'chat.completion.chunk',
    prompt_progress: { total: 631, cache, processed, time_ms: 2427 },
  });
  const prefill = { type: 'prefill', promptTokens: 631, cachedTokens: 128, elapsedMs: 2427 } as const;
  assert.deepEqual(
    read(
      'chat',
      progress(128),
      progress(631),
      progress(632),
      progress(127),
      progress(200, -1),
      delta('a'),
      stop,
    ),
    [
      started(null, null),
      { ...prefill, doneTokens: 128 },
      { ...prefill, doneTokens: 631 },
      token('a'),
      finish('stop'),
      {
        ...end,
        usage: { promptTokens: 0, completionTokens: 1, cachedTokens: 0, reasoningTokens: 0 },
        usageSource: 'estimated',
      },
    ],
  );
});

test('tokens after the last usage are counted', () => {
  const events = read(
    'chat',
    { ...delta('a'), usage: { ...usage, completion_tokens: 5 } },
    delta('b'),
    stop,
    '[DONE]',
  );
  assert.deepEqual(events.at(-1), {
    type: 'end',
    usage: { promptTokens: 9, completionTokens: 6, cachedTokens: 4, reasoningTokens: 0 },
    usageSource: 'estimated',
  });
});

test('after every choice has finished, [DONE] and the last blank line may be missing', () => {
  assert.deepEqual(read('chat', delta('a'), { ...stop, usage }), [
    started(),
    token('a'),
    finish('stop'),
    end,
  ]);
  const reader = new StreamReader('chat');
  const wire = Buffer.from(`data: ${JSON.stringify({ ...delta('a', { finish_reason: 'stop' }), usage })}`);
  assert.deepEqual(reader.push(wire), []);
  assert.deepEqual(reader.end(), [started(9, 4), token('a', 0, 3), finish('stop'), end]);
});

test('events after [DONE] are ignored', () => {
  assert.equal(read('chat', delta('a'), stop, '[DONE]', delta('b'), 'garbage', '[DONE]').length, 4);
});

test('comments, other fields, empty data and data of two lines are parsed as in the SSE standard', () => {
  const reader = new StreamReader('chat');
  const wire = `: ping\n\nevent: message\nid: 1\nretry: 5\ndata:{"choices":[{"delta":{"content":"a"},\ndata: "finish_reason":"stop"}]}\n\ndata:\n\ndata: [DONE]\n\n`;
  assert.deepEqual(
    reader.push(Buffer.from(wire)).map(({ type }) => type),
    ['started', 'token', 'finish', 'end'],
  );
});

const chunk = (text: string, finish_reason: string) => ({
  choices: [{ index: 0, text, finish_reason, logprobs: null }],
});

test('an empty finish_reason of TGI is ignored, and its own finish reasons are converted', () => {
  const events = read('text', chunk('a', ''), chunk('b', 'eos_token'), { choices: [], usage }, '[DONE]');
  assert.deepEqual(events, [started(), token('a'), token('b', 0, 2), finish('stop'), end]);
});

test('text and finish reason of vLLM are read from one chunk, and a repeated finish reason is ignored', () => {
  const last = delta('b', { finish_reason: 'length', stop_reason: null });
  assert.deepEqual(read('chat', delta(''), last, last, { choices: [], usage }, '[DONE]').slice(0, 3), [
    started(),
    token('b'),
    finish('length'),
  ]);
});

test('reasoning tokens are read from the details and from the older field', () => {
  for (const more of [{ completion_tokens_details: { reasoning_tokens: 2 } }, { reasoning_tokens: 2 }]) {
    const counted = { ...usage, ...more };
    const last = read('chat', delta('a'), { ...stop, usage: counted }, '[DONE]').at(-1);
    assert(last?.type === 'end');
    assert.equal(last.usage.reasoningTokens, 2);
    const whole = { choices: [{ message: { content: 'a' }, finish_reason: 'stop' }], usage: counted };
    assert.deepEqual(readResponse('chat', JSON.stringify(whole)).at(-1), last);
  }
});

test('log probabilities of a text are read in the chat and the text format', () => {
  const content = {
    content: [{ token: 'a', logprob: -1, bytes: [97], top_logprobs: [{ token: 'a', logprob: -1 }] }],
  };
  const lists = { tokens: ['a'], token_logprobs: [-1], top_logprobs: [{ a: -1 }], text_offset: [0] };
  for (const [logprobs, bytes] of [
    [content, [97]],
    [lists, null],
  ] as const) {
    const [, event] = read('text', { choices: [{ text: 'a', logprobs, finish_reason: 'stop' }] });
    assert.deepEqual(event, {
      ...token('a'),
      logprobs: [{ token: 'a', logprob: -1, bytes, top: [{ token: 'a', logprob: -1, bytes: null }] }],
    });
  }
});

test('alternatives are sorted by probability, wherever the server puts the sampled token', () => {
  const entry = (name: string, logprob: number) => ({ token: name, logprob, bytes: null });
  const sampled = { ...entry('z', -9), top_logprobs: [entry('z', -9), entry('b', -2), entry('a', -1)] };
  const lists = { tokens: ['z'], token_logprobs: [-9], top_logprobs: [{ z: -9, b: -2, a: -1 }] };
  for (const logprobs of [{ content: [sampled] }, lists]) {
    const [, event] = read('text', { choices: [{ text: 'z', logprobs, finish_reason: 'stop' }] });
    assert(event?.type === 'token' && event.logprobs);
    assert.deepEqual(
      event.logprobs.map(({ logprob, top }) => [
        logprob,
        top.map((alternative) => alternative.token).join(''),
      ]),
      [[-9, 'abz']],
    );
  }
});

test('an error frame of any dialect throws an error that matches its status', () => {
  const frames: [object, string][] = [
    [{ error: { message: 'busy', code: 503 } }, 'engine_unavailable'],
    [
      { error: { message: 'm', type: 'server_error', code: 'engine_unavailable', param: null } },
      'engine_unavailable',
    ],
    [{ error: 'Request failed during generation', error_type: 'generation' }, 'internal_error'],
    [{ object: 'error', message: 'bad', code: 400 }, 'invalid_value'],
    [
      { error: { message: "This model's maximum context length is 8 tokens", code: 400 } },
      'context_length_exceeded',
    ],
  ];
  for (const [frame, code] of frames) {
    assert.throws(() => read('chat', delta('a'), frame, '[DONE]'), { code });
  }
  const reader = new StreamReader('chat');
  assert.throws(() => reader.push(Buffer.from('error: {"code":500,"message":"x"}\n\n')), {
    code: 'internal_error',
  });
});

test('an invalid stream is engine_unavailable, and its text is not in the message or cause', () => {
  const marker = 'marked-prompt';
  const streams: (object | string)[][] = [
    [`{"choices":[{"delta":{"content":"${marker}"`],
    [`"${marker}"`],
    [`<html>${marker}</html>`],
    [{ choices: marker }],
    [{ choices: [marker] }],
    [{ choices: [{ index: -1, delta: { content: marker } }] }],
    [{ choices: [{ index: '0', delta: { content: marker } }] }],
    [{ choices: [{ index: 128, delta: { content: marker } }] }],
    [delta(marker), '[DONE]'],
    [delta(marker)],
    [delta(marker, { finish_reason: 'abort' })],
    ['[DONE]'],
    [],
  ];
  for (const frames of streams) {
    assert.throws(
      () => read('chat', ...frames),
      (error: unknown) => {
        assert.ok(error instanceof ServiceError);
        assert.equal(error.code, 'engine_unavailable');
        assert.ok(error.cause instanceof Error);
        assert.ok(!`${error.message} ${error.cause.message} ${error.cause.stack ?? ''}`.includes(marker));
        return true;
      },
      JSON.stringify(frames),
    );
  }
});

const readBytes = (...pushes: Buffer[]) => {
  const reader = new StreamReader('chat');
  return () => pushes.flatMap((bytes) => reader.push(bytes));
};

test('bytes that are not UTF-8, and lines and events that are too long, are engine_unavailable', () => {
  refuses(readBytes(Buffer.from([0x64, 0x61, 0x74, 0x61, 0x3a, 0xff, 0x0a])), 'engine_unavailable', null);
  refuses(readBytes(Buffer.alloc(MAX_EVENT_BYTES, 'x'), Buffer.from('x')), 'engine_unavailable', null);
  refuses(readBytes(Buffer.alloc(MAX_EVENT_BYTES + 1, 'x')), 'engine_unavailable', null);
  refuses(readBytes(Buffer.from(`data: ${'x'.repeat(MAX_EVENT_BYTES)}\n`)), 'engine_unavailable', null);
  refuses(readBytes(Buffer.from('data: x\n'.repeat(MAX_EVENT_BYTES / 4))), 'engine_unavailable', null);
});

test('reasoning is read from `reasoning_content` and from `reasoning`, and counted', () => {
  for (const name of ['reasoning', 'reasoning_content']) {
    const chunk = (delta: object, more: object = {}) => ({ choices: [{ index: 0, delta, ...more }] });
    const events = read(
      'chat',
      chunk({ role: 'assistant', content: '' }),
      chunk({ [name]: 'Hm' }),
      chunk({ [name]: '.', content: 'Yes' }),
      chunk({ content: null, [name]: null }, { finish_reason: 'stop' }),
      '[DONE]',
    );
    assert.deepEqual(events.slice(0, -1), [
      started(),
      reasoning('Hm'),
      reasoning('.', 3),
      token('Yes', 0, 3),
      finish('stop'),
    ]);
    const usage = { promptTokens: 0, completionTokens: 3, cachedTokens: 0, reasoningTokens: 2 };
    assert.deepEqual(events.at(-1), { type: 'end', usage, usageSource: 'estimated' });
    const message = { role: 'assistant', content: null, [name]: 'Hm.' };
    const whole = { choices: [{ index: 0, message, finish_reason: 'length' }] };
    assert.deepEqual(readResponse('chat', JSON.stringify(whole)).slice(1, -1), [
      reasoning('Hm.'),
      finish('length'),
    ]);
  }
});

test('usage missing from a non-streaming response is estimated, and missing choices or finish reasons are an error', () => {
  const response = { choices: [{ message: { content: 'x'.repeat(10) }, finish_reason: 'stop' }] };
  assert.deepEqual(readResponse('chat', JSON.stringify(response)).at(-1), {
    type: 'end',
    usage: { promptTokens: 0, completionTokens: 3, cachedTokens: 0, reasoningTokens: 0 },
    usageSource: 'estimated',
  });
  for (const body of ['', '[', 'null', '{}', '{"choices":[]}', '{"choices":[{"message":{"content":"a"}}]}']) {
    refuses(() => readResponse('chat', body), 'engine_unavailable', null);
  }
  assert.throws(() => readResponse('chat', '{"error":{"code":400,"message":"no"}}'), {
    code: 'invalid_value',
  });
});

test('a character that is split between two parts is one character, and half of one is replaced', () => {
  const texts = (...frames: object[]) =>
    read('chat', ...frames, { ...stop, usage }, '[DONE]').flatMap((event) =>
      event.type === 'token' || event.type === 'reasoning' ? [event.text] : [],
    );
  assert.deepEqual(texts(delta('a\ud83d'), delta('\ude42b')), ['a', '🙂b']);
  assert.deepEqual(texts(delta('a\ud83d'), delta(''), delta('\ude42')), ['a', '🙂']);
  assert.deepEqual(texts(delta('a\ud800b')), ['a\ufffdb']);
  assert.deepEqual(texts(delta('a'), delta('\ud800')), ['a', '\ufffd']);
  const thought = (reasoning_content: string) => ({ choices: [{ index: 0, delta: { reasoning_content } }] });
  assert.deepEqual(texts(thought('a\ud83d'), thought('\ude42')), ['a', '🙂']);
});
