import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import OpenAI, {
  APIConnectionError,
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
} from 'openai';
import { zodFunction } from 'openai/helpers/zod';
import { z } from 'zod';
import { ONE_WORD } from '../../support/default-model.ts';
import {
  CALLS,
  catchError,
  limitedKeys,
  KILLABLE,
  REAL,
  userMessage,
  SCRIPTED,
  startForClients,
  TOO_LARGE,
  recordingFetch,
  WITH_MODEL,
} from './fixture.ts';

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
});

describe('openai for Node, with tool calls', () => {
  const messages = userMessage(CALLS);
  const callsOf = (choice: OpenAI.ChatCompletion.Choice | undefined) =>
    choice?.message.tool_calls?.map((call) => {
      assert(call.type === 'function');
      assert.match(call.id, /^call_/);
      return { name: call.function.name, arguments: JSON.parse(call.function.arguments) as object };
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

/** Requests that are refused, with the class, status, code and param of the error. */
const REFUSALS: readonly [
  ChatFields | { top_q: number },
  readonly [unknown, number, string, string | null],
][] = [
  [{ stop: 5 as unknown as string }, [BadRequestError, 400, 'invalid_type', 'stop']],
  [{ messages: undefined }, [BadRequestError, 400, 'missing_required_parameter', 'messages']],
  [{ top_q: 1 }, [BadRequestError, 400, 'unsupported_parameter', 'top_q']],
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
    test(`the error is ${expected[2]}, with the ID of the request`, async () => {
      const error = await apiError(createChat(fields as ChatFields));
      assert.deepEqual([error.constructor, error.status, error.code, error.param], expected);
      assert.match(error.requestID ?? '', /^[0-9a-f-]{36}$/);
      if (error.status === 500) assert.ok(error.requestID && error.message.includes(error.requestID));
      assert.equal(error.headers?.has('retry-after'), error.status === 503);
    });
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

  test('requests_per_minute is a RateLimitError that names the plan and its limit', async () => {
    const brief = open({ apiKey: await keys.brief() });
    await createChat({}, brief);
    const error = await apiError(createChat({}, brief));
    assert.deepEqual([error.constructor, error.type], [RateLimitError, 'rate_limit_error']);
    assert.match(error.message, /The plan "brief" allows 600 requests per minute/);
    assert.equal(error.headers?.get('x-ratelimit-limit-requests'), '1');
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

  test('a refused connection is an APIConnectionError', async () => {
    const disconnected = open({ baseURL: 'http://127.0.0.1:1/v1' });
    const error = await apiError(createChat({}, disconnected));
    assert.equal(error.constructor, APIConnectionError);
  });

  test('a body that did not arrive in time is sent again', async () => {
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
