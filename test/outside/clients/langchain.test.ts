import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { ContextOverflowError } from '@langchain/core/errors';
import type { AIMessageChunk } from '@langchain/core/messages';
import { ChatOpenAI, OpenAI } from '@langchain/openai';
import { z } from 'zod';
import { scripted } from '../../../src/engine/scripted/options.ts';
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
  SCRIPTED,
  startForClients,
  TOO_LARGE,
  TOO_LONG,
  advanceByRetryAfter,
  recordingFetch,
  WITH_MODEL,
} from './fixture.ts';
import { untilIdle } from '../../harness.ts';

const service = await startForClients();
after(() => service[Symbol.asyncDispose]());

type Fields = NonNullable<Extract<ConstructorParameters<typeof ChatOpenAI>[0], object>>;

function open(fields: Fields = {}, options: { fetch?: typeof fetch } = {}): ChatOpenAI {
  const configuration = { baseURL: `${service.url}/v1`, ...options };
  return new ChatOpenAI({ model: SCRIPTED, apiKey: service.key, maxRetries: 0, configuration, ...fields });
}

const chat = open();
const keys = await limitedKeys(service);

describe('LangChain, with the real model', WITH_MODEL, () => {
  const modelKwargs = { logit_bias: ONE_WORD };
  const real = () => open({ model: REAL, temperature: 0, maxTokens: 8, modelKwargs });

  test('a chat and its stream are equal and have usage', async () => {
    const messages: [string, string][] = [
      ['system', 'You answer in one short sentence.'],
      ['user', 'Name three colors.'],
    ];
    const whole = await real().invoke(messages);
    assert.equal(whole.text, ' the'.repeat(8));
    assert.equal(whole.response_metadata['finish_reason'], 'length');
    assert.equal(whole.usage_metadata?.output_tokens, 8);
    let streamed: AIMessageChunk | undefined;
    for await (const chunk of await real().stream(messages)) streamed = streamed?.concat(chunk) ?? chunk;
    assert.equal(streamed?.content, whole.content);
    assert.equal(streamed?.usage_metadata?.input_tokens, whole.usage_metadata?.input_tokens);
    assert.equal(streamed?.usage_metadata?.output_tokens, 8);
  });

  test('a text completion returns its text', async () => {
    const text = new OpenAI({
      model: REAL,
      apiKey: service.key,
      configuration: { baseURL: `${service.url}/v1` },
      temperature: 0,
      maxTokens: 4,
      modelKwargs,
    });
    assert.equal(await text.invoke('The capital of France is'), ' the the the the');
  });

  test('structured output is parsed by the library', async () => {
    const schema = z.object({ size: z.enum(['small', 'large']), capital: z.boolean() });
    const describer = open({ model: REAL, temperature: 0 }).withStructuredOutput(schema, {
      name: 'city',
      method: 'jsonSchema',
    });
    const output = await describer.invoke('Describe Paris as JSON.');
    assert.deepEqual(schema.parse(output), output);
  });
});

describe('LangChain, with tool calls', () => {
  test('a message and its stream have the text, the calls and the tokens of reasoning', async () => {
    const prompt = scripted(CALLS);
    let streamed: AIMessageChunk | undefined;
    for await (const chunk of await chat.stream(prompt)) streamed = streamed?.concat(chunk) ?? chunk;
    for (const message of [await chat.invoke(prompt), streamed]) {
      assert.ok(message);
      assert.equal(message.text, CALLS.text);
      assert.deepEqual(
        message.tool_calls?.map(({ name, args }) => ({ name, arguments: args })),
        CALLS.calls,
      );
      assert.equal(message.additional_kwargs['reasoning_content'], CALLS.reasoning);
      assert.equal(message.usage_metadata?.output_token_details?.reasoning, 5);
    }
  });
});

describe('LangChain, when a request is aborted', () => {
  test('an abort during the stream frees the slot', async () => {
    const stop = new AbortController();
    const stream = await chat.stream(scripted({ tokens: 1000, tokenMs: 5 }), { signal: stop.signal });
    let text = '';
    const read = async () => {
      for await (const chunk of stream) {
        text += chunk.text;
        if (text !== '') stop.abort();
      }
    };
    await assert.rejects(read(), /abort/i);
    assert.notEqual(text, '');
    await untilIdle(service);
  });

  test('leaving the loop frees the slot', async () => {
    for await (const { content } of await chat.stream(scripted({ tokens: 1000, tokenMs: 5 }))) {
      if (content !== '') break;
    }
    await untilIdle(service);
  });

  test('a timeout of the library frees the slot', async () => {
    const call = open({ timeout: 200 }).invoke(scripted({ prefillMs: FOREVER }));
    await assert.rejects(call, { name: 'TimeoutError' });
    await untilIdle(service);
  });
});

/** Requests that are refused, with the status, code and param of the error. */
const REFUSALS: readonly [Fields, string, readonly [number, string, string | null]][] = [
  [{ temperature: 3 }, 'Hi', [400, 'invalid_value', 'temperature']],
  [{ apiKey: 'sk-sluice-no' }, 'Hi', [401, 'invalid_api_key', null]],
  [{ apiKey: keys.otherModel }, 'Hi', [403, 'model_not_allowed', 'model']],
  [{ apiKey: keys.spent }, 'Hi', [429, 'insufficient_quota', null]],
  [{ model: 'acme/missing' }, 'Hi', [404, 'model_not_found', 'model']],
  [{}, TOO_LARGE, [413, 'request_too_large', null]],
  [{}, scripted({ error: 'internal_error' }), [500, 'internal_error', null]],
  [{}, scripted({ error: 'engine_unavailable' }), [503, 'engine_unavailable', null]],
];

describe('LangChain, when a request is refused', () => {
  for (const [fields, prompt, expected] of REFUSALS) {
    test(`the error is ${expected[1]}, streaming or not`, async () => {
      const whole = await openaiError(open(fields).invoke(prompt));
      const streamed = await openaiError(open(fields).stream(prompt));
      for (const { status, code, param } of [whole, streamed])
        assert.deepEqual([status, code, param], expected);
    });
  }

  test('the error is requests_per_minute, with the wait', async () => {
    const brief = open({ apiKey: await keys.brief() });
    await brief.invoke('Hi');
    const { status, code, headers } = await openaiError(brief.invoke('Hi'));
    assert.deepEqual([status, code], [429, 'requests_per_minute']);
    assert.equal(headers?.get('retry-after-ms'), '100');
  });

  test('the error is insufficient_quota, which is not retried', async () => {
    const { fetch, statuses } = recordingFetch();
    const { code } = await openaiError(open({ apiKey: keys.spent, maxRetries: 2 }, { fetch }).invoke('Hi'));
    assert.deepEqual([code, statuses], ['insufficient_quota', [429]]);
  });

  test('a prompt that is too long is a ContextOverflowError', async () => {
    await assert.rejects(chat.invoke(TOO_LONG), (error) => ContextOverflowError.isInstance(error));
  });

  test('an error during the stream is thrown after the text before it', async () => {
    let chunks = 0;
    const read = async () => {
      for await (const { content } of await chat.stream(scripted({ tokens: 10, errorAfter: 3 }))) {
        if (content !== '') chunks++;
      }
    };
    const { code } = await openaiError(read());
    assert.equal(code, 'internal_error');
    assert.equal(chunks, 3);
  });
});

describe('LangChain retries', () => {
  test('if the queue is full', async () => {
    const full = await fillQueue(service);
    const { fetch, statuses } = recordingFetch(async () => full[Symbol.asyncDispose]());
    const message = await open({ maxRetries: 2 }, { fetch }).invoke(scripted({ text: 'at last' }));
    assert.equal(message.content, 'at last');
    assert.deepEqual(statuses, [503, 200]);
  });

  test('if a limit is exceeded', async () => {
    const { fetch, statuses } = recordingFetch(advanceByRetryAfter(service));
    const brief = open({ apiKey: await keys.brief(), maxRetries: 5 }, { fetch });
    await brief.invoke('Hi');
    const message = await brief.invoke(scripted({ text: 'at last' }));
    assert.equal(message.content, 'at last');
    assert.deepEqual(statuses, [200, 429, 200]);
  });

  test('if the engine has crashed', async () => {
    await killEngine(service);
    const { fetch, statuses } = recordingFetch();
    const patient = open({ model: KILLABLE, maxRetries: 10 }, { fetch });
    const message = await patient.invoke(scripted({ text: 'back again' }));
    assert.equal(message.content, 'back again');
    assert.equal(statuses[0], 503);
    assert.equal(statuses.at(-1), 200);
  });
});

interface OpenAIError {
  status?: number;
  code?: string;
  param?: string | null;
  headers?: Headers;
}

/** Resolves to the error of a rejected promise, which is an error of the openai library. */
async function openaiError(call: Promise<unknown>): Promise<OpenAIError> {
  return (await catchError(call)) as OpenAIError;
}
