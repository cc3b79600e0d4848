import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import OpenAI, {
  APIConnectionError,
  APIConnectionTimeoutError,
  APIError,
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
} from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { ONE_WORD } from '../../support/default-model.ts';
import {
  CALLS,
  catchError,
  fillQueue,
  FOREVER,
  killEngine,
  limitedKeys,
  KILLABLE,
  REAL,
  userMessage,
  SCRIPTED,
  startForClients,
  TOO_LARGE,
  TOO_LONG,
  advanceByRetryAfter,
  recordingFetch,
  WITH_MODEL,
} from './fixture.ts';
import { untilIdle } from '../../harness.ts';

type ClientOptions = ConstructorParameters<typeof OpenAI>[0];
type ChatFields = Partial<OpenAI.ChatCompletionCreateParamsNonStreaming>;

const service = await startForClients();
after(() => service[Symbol.asyncDispose]());

function open(options: ClientOptions = {}): OpenAI {
  return new OpenAI({ baseURL: `${service.url}/v1`, apiKey: service.key, maxRetries: 0, ...options });
}

const client = open();
const keys = await limitedKeys(service);

/** Creates a non-streaming chat completion, by default with the scripted model. */
function createChat(fields: ChatFields, by = client): Promise<OpenAI.ChatCompletion> {
  return by.chat.completions.create({ model: SCRIPTED, messages: userMessage({}), ...fields });
}

describe('openai for Node, with the real model', WITH_MODEL, () => {
  test('a chat has its text, finish reason and usage', async () => {
    const messages = userMessage('Name a river.');
    const completion = await createChat({
      model: REAL,
      messages,
      temperature: 0,
      max_tokens: 4,
      logit_bias: ONE_WORD,
    });
    assert.equal(completion.choices[0]?.message.content, ' the the the the');
    assert.equal(completion.choices[0]?.finish_reason, 'length');
    assert.equal(completion.model, REAL);
    const usage = completion.usage;
    assert.ok(usage && usage.prompt_tokens > 0);
    assert.equal(usage.completion_tokens, 4);
    assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
  });

  test('a stream is equal to the non-streaming response, and ends with usage', async () => {
    const messages = userMessage('Name three colors.');
    const request = { model: REAL, messages, temperature: 0, max_tokens: 40, logit_bias: ONE_WORD };
    const whole = await client.chat.completions.create(request);
    const stream = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    const collected = await stream.finalChatCompletion();
    assert.equal(text, whole.choices[0]?.message.content);
    assert.equal(collected.choices[0]?.message.content, text);
    assert.equal(collected.choices[0]?.finish_reason, whole.choices[0]?.finish_reason);
    assert.equal(collected.usage?.completion_tokens, whole.usage?.completion_tokens);
  });

  test('a text completion and its stream are equal', async () => {
    const prompt = 'The capital of France is';
    const request = { model: REAL, prompt, max_tokens: 4, temperature: 0, logit_bias: ONE_WORD };
    const whole = await client.completions.create(request);
    assert.equal(whole.choices[0]?.text, ' the the the the');
    assert.equal(whole.choices[0]?.finish_reason, 'length');
    assert.equal(whole.usage?.completion_tokens, 4);
    let text = '';
    for await (const chunk of await client.completions.create({ ...request, stream: true })) {
      text += chunk.choices[0]?.text ?? '';
    }
    assert.equal(text, whole.choices[0]?.text);
  });

  test('models can be listed and retrieved', async () => {
    const listed: string[] = [];
    for await (const model of client.models.list()) listed.push(model.id);
    assert.deepEqual(listed, [SCRIPTED, KILLABLE, REAL]);
    const one = await client.models.retrieve(REAL);
    assert.deepEqual(
      { ...one, created: typeof one.created },
      {
        id: REAL,
        object: 'model',
        created: 'number',
        owned_by: 'HuggingFaceTB',
        architecture: { instruct_type: 'chatml', modality: 'text->text', tokenizer: 'SmolLM' },
        context_length: 512,
        max_completion_tokens: 512,
        pricing: { prompt: '0', completion: '0' },
        quantization: 'Q4_1',
      },
    );
  });

  test('structured output is parsed by the library', async () => {
    const City = z.object({
      size: z.enum(['small', 'large']),
      capital: z.boolean(),
    });
    const completion = await client.chat.completions.parse({
      model: REAL,
      messages: userMessage('Describe Paris as JSON.'),
      temperature: 0,
      response_format: zodResponseFormat(City, 'city'),
    });
    const parsed = completion.choices[0]?.message.parsed;
    assert.ok(parsed);
    assert.deepEqual(City.parse(parsed), parsed);
  });

  test('leaving a stream frees the slot', async () => {
    const stream = await client.chat.completions.create({
      model: REAL,
      messages: userMessage('Count from one to a thousand, in words.'),
      stream: true,
    });
    for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
    await untilIdle(service);
  });
});

describe('openai for Node, with tool calls', () => {
  const messages = userMessage(CALLS);
  const callsOf = (choice: OpenAI.ChatCompletion.Choice | undefined) =>
    choice?.message.tool_calls?.map((call) => {
      assert(call.type === 'function');
      assert.match(call.id, /^call_/);
      return { name: call.function.name, arguments: JSON.parse(call.function.arguments) as object };
    });

  test('a response and its stream have the text, the calls and the tokens of reasoning', async () => {
    const whole = await createChat({ messages });
    const stream = client.chat.completions.stream({ model: SCRIPTED, messages });
    for (const completion of [whole, await stream.finalChatCompletion()]) {
      assert.equal(completion.choices[0]?.message.content, CALLS.text);
      assert.deepEqual(callsOf(completion.choices[0]), CALLS.calls);
      assert.equal(completion.choices[0]?.finish_reason, 'tool_calls');
      assert.equal(completion.usage?.completion_tokens_details?.reasoning_tokens, 5);
    }
  });

  test('each of two choices has its own calls, with indexes from 0 and unique IDs', async () => {
    const request = { model: SCRIPTED, messages, n: 2 };
    const whole = await client.chat.completions.create(request);
    const stream = client.chat.completions.stream(request);
    const indexes: number[][] = [[], []];
    stream.on('chunk', ({ choices }) => {
      for (const { index, delta } of choices)
        for (const call of delta.tool_calls ?? [])
          if (call.id !== undefined) indexes[index]?.push(call.index);
    });
    for (const { choices } of [whole, await stream.finalChatCompletion()]) {
      assert.equal(choices.length, 2);
      const ids = choices.flatMap(({ message }) => message.tool_calls?.map(({ id }) => id) ?? []);
      assert.equal(new Set(ids).size, 2 * CALLS.calls.length);
      for (const [index, choice] of choices.entries()) {
        assert.deepEqual([choice.index, choice.finish_reason], [index, 'tool_calls']);
        assert.deepEqual(callsOf(choice), CALLS.calls);
      }
    }
    const expected = CALLS.calls.map((_, call) => call);
    assert.deepEqual(indexes, [expected, expected]);
  });

  test(
    'the embedded engine calls a function, which the library runs, and continues with its result',
    WITH_MODEL,
    async () => {
      const sizes: string[] = [];
      const paint = zodFunction({
        name: 'paint',
        parameters: z.object({ size: z.enum(['small', 'large']) }),
        function: ({ size }) => {
          sizes.push(size);
          return `painted a ${size} house`;
        },
      });
      const runner = client.chat.completions.runTools({
        model: REAL,
        messages: userMessage('Paint a house.'),
        tools: [paint],
        tool_choice: { type: 'function', function: { name: 'paint' } },
        parallel_tool_calls: false,
        max_tokens: 100,
        stream: true,
      });
      await runner.done();
      assert.equal(sizes.length, 1);
      const [, answer, result] = runner.messages;
      assert(answer?.role === 'assistant' && result?.role === 'tool');
      assert.equal(answer.content, null);
      assert.equal(result.tool_call_id, answer.tool_calls?.[0]?.id);
      const next = await client.chat.completions.create({
        model: REAL,
        messages: runner.messages,
        tools: [paint],
        tool_choice: 'none',
        max_tokens: 8,
        logit_bias: ONE_WORD,
      });
      assert.equal(next.choices[0]?.message.content, ' the'.repeat(8));
      assert.equal(next.choices[0].message.tool_calls, undefined);
    },
  );
});

describe('openai for Node, when a request is aborted', () => {
  test('an abort during the stream frees the slot', async () => {
    const stop = new AbortController();
    const request = {
      model: SCRIPTED,
      messages: userMessage({ tokens: 1000, tokenMs: 5 }),
      stream: true as const,
    };
    const stream = await client.chat.completions.create(request, { signal: stop.signal });
    let text = '';
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      if (text !== '') stop.abort();
    }
    assert.notEqual(text, '');
    await untilIdle(service);
  });

  test('an abort before the first byte frees the slot', async () => {
    const stop = new AbortController();
    const call = client.chat.completions.create(
      { model: SCRIPTED, messages: userMessage({ prefillMs: FOREVER }) },
      { signal: stop.signal },
    );
    stop.abort();
    await assert.rejects(call, APIUserAbortError);
    await untilIdle(service);
  });

  test('a timeout of the library frees the slot', async () => {
    const withTimeout = open({ timeout: 200 });
    await assert.rejects(
      createChat({ messages: userMessage({ prefillMs: FOREVER }) }, withTimeout),
      APIConnectionTimeoutError,
    );
    await untilIdle(service);
  });
});

/** Requests that are refused, with the class, status, code and param of the error. */
const REFUSALS: readonly [
  ChatFields | { top_q: number },
  readonly [unknown, number, string, string | null],
][] = [
  [{ temperature: 3 }, [BadRequestError, 400, 'invalid_value', 'temperature']],
  [{ stop: 5 as unknown as string }, [BadRequestError, 400, 'invalid_type', 'stop']],
  [{ messages: undefined }, [BadRequestError, 400, 'missing_required_parameter', 'messages']],
  [{ top_q: 1 }, [BadRequestError, 400, 'unsupported_parameter', 'top_q']],
  [{ messages: userMessage(TOO_LONG) }, [BadRequestError, 400, 'context_length_exceeded', 'messages']],
  [{ model: 'acme/missing' }, [NotFoundError, 404, 'model_not_found', 'model']],
  [{ messages: userMessage(TOO_LARGE) }, [APIError, 413, 'request_too_large', null]],
  [
    { messages: userMessage({ error: 'internal_error' }) },
    [InternalServerError, 500, 'internal_error', null],
  ],
  [
    { messages: userMessage({ error: 'engine_unavailable' }) },
    [InternalServerError, 503, 'engine_unavailable', null],
  ],
];

describe('openai for Node, when a request is refused', () => {
  for (const [fields, expected] of REFUSALS) {
    const [, , code] = expected;
    for (const stream of [false, true]) {
      test(`the error of a ${stream ? 'streaming' : 'non-streaming'} request is ${code}`, async () => {
        const error = await apiError(createChat({ ...fields, stream } as ChatFields));
        assert.deepEqual([error.constructor, error.status, error.code, error.param], expected);
        assert.match(error.requestID ?? '', /^[0-9a-f-]{36}$/);
        if (error.status === 500) assert.ok(error.requestID && error.message.includes(error.requestID));
        assert.equal(error.headers?.has('retry-after'), error.status === 503);
      });
    }
  }

  test('a wrong key is an AuthenticationError on every endpoint', async () => {
    const withWrongKey = open({ apiKey: `${service.key}x` });
    for (const call of [
      () => createChat({}, withWrongKey),
      () => withWrongKey.models.list(),
      () => withWrongKey.completions.create(PROMPT),
    ]) {
      const error = await apiError(call());
      assert.equal(error.constructor, AuthenticationError);
      assert.deepEqual(
        [error.status, error.code, error.type],
        [401, 'invalid_api_key', 'authentication_error'],
      );
    }
  });

  test('requests_per_minute is a RateLimitError with headers', async () => {
    const brief = open({ apiKey: await keys.brief() });
    await createChat({}, brief);
    for (const stream of [false, true]) {
      const error = await apiError(createChat({ stream } as ChatFields, brief));
      assert.deepEqual(
        [error.constructor, error.status, error.code, error.type],
        [RateLimitError, 429, 'requests_per_minute', 'rate_limit_error'],
      );
      assert.match(error.message, /The plan "brief" allows 600 requests per minute/);
      const waitMs = Number(error.headers?.get('retry-after-ms'));
      assert.equal(waitMs, 100);
      assert.equal(error.headers?.get('x-ratelimit-limit-requests'), '1');
      assert.equal(error.headers?.get('x-ratelimit-remaining-requests'), '0');
    }
  });

  test('insufficient_quota is not retried', async () => {
    const { fetch, statuses } = recordingFetch();
    const error = await apiError(createChat({}, open({ apiKey: keys.spent, fetch, maxRetries: 2 })));
    assert.deepEqual(
      [error.constructor, error.status, error.code, error.headers?.get('x-should-retry')],
      [RateLimitError, 429, 'insufficient_quota', 'false'],
    );
    assert.deepEqual(statuses, [429]);
  });

  test('the error is model_not_allowed if the key may not use the model', async () => {
    const withOtherModel = open({ apiKey: keys.otherModel });
    const error = await apiError(createChat({}, withOtherModel));
    assert.deepEqual(
      [error.constructor, error.status, error.code, error.param],
      [PermissionDeniedError, 403, 'model_not_allowed', 'model'],
    );
    assert.equal(
      (await apiError(withOtherModel.models.retrieve(SCRIPTED))).constructor,
      PermissionDeniedError,
    );
    assert.deepEqual((await withOtherModel.models.list()).data, []);
  });

  test('an unknown model and an unknown path are a NotFoundError', async () => {
    const model = await apiError(client.models.retrieve('acme/missing'));
    assert.deepEqual([model.constructor, model.code], [NotFoundError, 'model_not_found']);
    const path = await apiError(client.moderations.create({ input: 'a' }));
    assert.deepEqual([path.constructor, path.code], [NotFoundError, 'unknown_url']);
  });

  test('an error during the stream is thrown after the text before it', async () => {
    const stream = await client.chat.completions.create({
      model: SCRIPTED,
      messages: userMessage({ tokens: 10, errorAfter: 3 }),
      stream: true,
    });
    let chunks = 0;
    const error = await apiError(
      (async () => {
        for await (const chunk of stream) if (chunk.choices[0]?.delta.content) chunks++;
      })(),
    );
    assert.equal(chunks, 3);
    assert.deepEqual([error.code, error.type], ['internal_error', 'server_error']);
  });

  test('a refused connection is an APIConnectionError', async () => {
    const disconnected = open({ baseURL: 'http://127.0.0.1:1/v1' });
    const error = await apiError(createChat({}, disconnected));
    assert.equal(error.constructor, APIConnectionError);
  });
});

describe('openai for Node retries', () => {
  test('if the queue is full', async () => {
    const full = await fillQueue(service);
    const { fetch, statuses } = recordingFetch(async () => full[Symbol.asyncDispose]());
    const completion = await createChat(
      { messages: userMessage({ text: 'at last' }) },
      open({ fetch, maxRetries: 2 }),
    );
    assert.equal(completion.choices[0]?.message.content, 'at last');
    assert.deepEqual(statuses, [503, 200]);
  });

  test('if the engine has crashed', async () => {
    await killEngine(service);
    const { fetch, statuses } = recordingFetch();
    const completion = await createChat(
      { model: KILLABLE, messages: userMessage({ text: 'back again' }) },
      open({ fetch, maxRetries: 10 }),
    );
    assert.equal(completion.choices[0]?.message.content, 'back again');
    assert.equal(statuses[0], 503);
    assert.equal(statuses.at(-1), 200);
  });

  test('if a limit is exceeded, and succeeds after the time in the headers', async () => {
    const apiKey = await keys.brief();
    await createChat({}, open({ apiKey }));
    const { fetch, statuses } = recordingFetch(advanceByRetryAfter(service));
    const completion = await createChat(
      { messages: userMessage({ text: 'at last' }) },
      open({ apiKey, fetch, maxRetries: 2 }),
    );
    assert.equal(completion.choices[0]?.message.content, 'at last');
    assert.deepEqual(statuses, [429, 200]);
  });

  test('if the body of the request did not arrive in time', async () => {
    const { fetch, statuses } = recordingFetch();
    const stallOnce: typeof globalThis.fetch = async (url, init) => {
      if (statuses.length > 0) return fetch(url, init);
      const upload = new TransformStream<Uint8Array, Uint8Array>();
      const stalled: RequestInit & { duplex: 'half' } = { ...init, body: upload.readable, duplex: 'half' };
      const writer = upload.writable.getWriter();
      // The first chunk is sent with the headers.
      const [response] = await Promise.all([fetch(url, stalled), writer.write(Buffer.from('{'))]);
      await writer.abort();
      return response;
    };
    const completion = await createChat(
      { messages: userMessage({ text: 'whole' }) },
      open({ fetch: stallOnce, maxRetries: 1 }),
    );
    assert.equal(completion.choices[0]?.message.content, 'whole');
    assert.deepEqual(statuses, [408, 200]);
  });
});

const PROMPT = { model: SCRIPTED, prompt: 'Once' };

/** Resolves to the error of a rejected promise. */
async function apiError(call: Promise<unknown>): Promise<APIError> {
  const error = await catchError(call);
  assert.ok(error instanceof APIError, String(error));
  return error;
}
