import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, Output, RetryError, streamText } from 'ai';
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

function provider(options: { apiKey?: string; fetch?: typeof fetch } = {}) {
  return createOpenAICompatible({
    name: 'sluice',
    baseURL: `${service.url}/v1`,
    apiKey: service.key,
    includeUsage: true,
    supportsStructuredOutputs: true,
    ...options,
  });
}

const keys = await limitedKeys(service);
const sluice = provider();
const model = sluice(SCRIPTED);
const ONCE = { maxRetries: 0 };

// Disables warnings about fields that text completions do not have.
globalThis.AI_SDK_LOG_WARNINGS = false;

describe('the AI SDK, with the real model', WITH_MODEL, () => {
  const request = {
    model: sluice(REAL),
    prompt: 'Name three colors.',
    temperature: 0,
    maxOutputTokens: 8,
    providerOptions: { sluice: { logit_bias: ONE_WORD } },
  };

  test('a chat and its stream are equal and have usage', async () => {
    const whole = await generateText(request);
    assert.equal(whole.text, ' the'.repeat(8));
    assert.equal(whole.finishReason, 'length');
    assert.equal(whole.usage.outputTokens, 8);
    const stream = streamText(request);
    let text = '';
    for await (const part of stream.textStream) text += part;
    assert.equal(text, whole.text);
    assert.equal(await stream.finishReason, 'length');
    const usage = await stream.usage;
    assert.equal(usage.outputTokens, 8);
    assert.equal(usage.inputTokens, whole.usage.inputTokens);
  });

  test('a text completion has its text and usage', async () => {
    // The library formats the prompt as a dialog.
    const { text, usage } = await generateText({
      model: sluice.completionModel(REAL),
      prompt: 'The capital of France is',
      temperature: 0,
      maxOutputTokens: 4,
      providerOptions: { sluice: { logit_bias: ONE_WORD } },
    });
    assert.equal(text, ' the the the the');
    assert.equal(usage.outputTokens, 4);
  });

  test('structured output is parsed by the library', async () => {
    const schema = z.object({ size: z.enum(['small', 'large']), capital: z.boolean() });
    const { output } = await generateText({
      model: sluice(REAL),
      prompt: 'Describe Paris as JSON.',
      temperature: 0,
      output: Output.object({ schema }),
    });
    assert.deepEqual(schema.parse(output), output);
  });
});

describe('the AI SDK, with tool calls', () => {
  const prompt: Parameters<typeof model.doGenerate>[0]['prompt'] = [
    { role: 'user', content: [{ type: 'text', text: scripted(CALLS) }] },
  ];

  test('a response and its stream have the reasoning, the text and the calls', async () => {
    const { content, usage, finishReason } = await model.doGenerate({ prompt });
    const { stream } = await model.doStream({ prompt });
    const texts = { text: '', reasoning: '' };
    const calls: { name: string; arguments: unknown }[] = [];
    const add = (part: { type: string; toolName?: string; input?: unknown }) => {
      if (part.type === 'tool-call')
        calls.push({ name: String(part.toolName), arguments: JSON.parse(String(part.input)) as unknown });
    };
    for (const part of content) {
      add(part);
      if (part.type === 'text' || part.type === 'reasoning') texts[part.type] += part.text;
    }
    assert.deepEqual([texts, calls], [{ text: CALLS.text, reasoning: CALLS.reasoning }, CALLS.calls]);
    assert.equal(finishReason.unified, 'tool-calls');
    assert.equal(usage.outputTokens.reasoning, 5);
    texts.text = texts.reasoning = '';
    calls.length = 0;
    for await (const part of stream) {
      add(part);
      if (part.type === 'text-delta') texts.text += part.delta;
      if (part.type === 'reasoning-delta') texts.reasoning += part.delta;
    }
    assert.deepEqual([texts, calls], [{ text: CALLS.text, reasoning: CALLS.reasoning }, CALLS.calls]);
  });
});

describe('the AI SDK, when a request is aborted', () => {
  test('an abort during the stream frees the slot', async () => {
    const stop = new AbortController();
    const { fullStream } = streamText({
      model,
      prompt: scripted({ tokens: 1000, tokenMs: 5 }),
      abortSignal: stop.signal,
      ...ONCE,
    });
    const types: string[] = [];
    for await (const { type } of fullStream) {
      types.push(type);
      if (type === 'text-delta') stop.abort();
    }
    assert.ok(types.includes('text-delta'));
    assert.equal(types.at(-1), 'abort');
    await untilIdle(service);
  });

  test('a timeout of the library frees the slot', async () => {
    const prompt = scripted({ prefillMs: FOREVER });
    await assert.rejects(generateText({ model, prompt, timeout: 200, ...ONCE }), { name: 'TimeoutError' });
    await untilIdle(service);
  });
});

/** Requests that are refused, with the status, code and param of the error, and whether the library may retry. */
const REFUSALS: readonly [object, readonly [number, string, string | null, boolean]][] = [
  [{ temperature: 3 }, [400, 'invalid_value', 'temperature', false]],
  [{ prompt: TOO_LONG }, [400, 'context_length_exceeded', 'messages', false]],
  [{ model: provider({ apiKey: 'sk-sluice-no' })(SCRIPTED) }, [401, 'invalid_api_key', null, false]],
  [{ model: provider({ apiKey: keys.otherModel })(SCRIPTED) }, [403, 'model_not_allowed', 'model', false]],
  [{ model: provider({ apiKey: keys.spent })(SCRIPTED) }, [429, 'insufficient_quota', null, true]],
  [{ model: sluice('acme/missing') }, [404, 'model_not_found', 'model', false]],
  [{ prompt: TOO_LARGE }, [413, 'request_too_large', null, false]],
  [{ prompt: scripted({ error: 'internal_error' }) }, [500, 'internal_error', null, true]],
  [{ prompt: scripted({ error: 'engine_unavailable' }) }, [503, 'engine_unavailable', null, true]],
];

describe('the AI SDK, when a request is refused', () => {
  for (const [fields, expected] of REFUSALS) {
    test(`the error is ${expected[1]}, streaming or not`, async () => {
      const request = { model, prompt: 'Hi', ...ONCE, ...fields };
      const stream = streamText({ ...request, onError() {} });
      const parts = await Array.fromAsync(stream.fullStream);
      const part = parts.find(({ type }) => type === 'error');
      const streamed = part?.type === 'error' ? part.error : undefined;
      for (const error of [await catchError(generateText(request)), streamed]) {
        assert.ok(APICallError.isInstance(error), String(error));
        const body = JSON.parse(error.responseBody ?? '{}') as ErrorBody;
        assert.deepEqual([error.statusCode, body.error.code, body.error.param, error.isRetryable], expected);
        assert.equal(error.message, body.error.message);
      }
    });
  }

  test('an error during the stream is a part of the stream', async () => {
    const stream = streamText({
      model,
      prompt: scripted({ tokens: 10, errorAfter: 3 }),
      ...ONCE,
      onError() {},
    });
    const parts = await Array.fromAsync(stream.fullStream);
    assert.equal(parts.filter(({ type }) => type === 'text-delta').length, 3);
    const error = parts.find((part) => part.type === 'error')?.error;
    assert.match(JSON.stringify(error) + String(error), /The service failed\. The request ID is/);
  });

  test('the error is requests_per_minute, with headers for the remaining requests', async () => {
    const brief = provider({ apiKey: await keys.brief() })(SCRIPTED);
    await generateText({ model: brief, prompt: 'Hi', ...ONCE });
    const error = await catchError(generateText({ model: brief, prompt: 'Hi', ...ONCE }));
    assert.ok(APICallError.isInstance(error), String(error));
    const body = JSON.parse(error.responseBody ?? '{}') as ErrorBody;
    assert.deepEqual(
      [error.statusCode, body.error.code, error.isRetryable],
      [429, 'requests_per_minute', true],
    );
    assert.equal(error.responseHeaders?.['x-ratelimit-remaining-requests'], '0');
    assert.equal(error.responseHeaders?.['retry-after-ms'], '100');
  });

  test('fails after the maximum number of retries', async () => {
    const { fetch, statuses } = recordingFetch();
    const prompt = scripted({ error: 'engine_unavailable' });
    const error = await catchError(
      generateText({ model: provider({ fetch })(SCRIPTED), prompt, maxRetries: 1 }),
    );
    assert.ok(RetryError.isInstance(error));
    assert.deepEqual(statuses, [503, 503]);
  });
});

describe('the AI SDK retries', () => {
  test('if the queue is full', async () => {
    const full = await fillQueue(service);
    const { fetch, statuses } = recordingFetch(async () => full[Symbol.asyncDispose]());
    const prompt = scripted({ text: 'at last' });
    const { text } = await generateText({ model: provider({ fetch })(SCRIPTED), prompt });
    assert.equal(text, 'at last');
    assert.deepEqual(statuses, [503, 200]);
  });

  test('if a limit is exceeded, and succeeds after the time in the headers', async () => {
    const apiKey = await keys.brief();
    const { fetch, statuses } = recordingFetch(advanceByRetryAfter(service));
    const brief = provider({ apiKey, fetch })(SCRIPTED);
    await generateText({ model: brief, prompt: 'Hi' });
    const { text } = await generateText({ model: brief, prompt: scripted({ text: 'at last' }) });
    assert.equal(text, 'at last');
    assert.deepEqual(statuses, [200, 429, 200]);
  });

  test('if the engine has crashed', async () => {
    await killEngine(service);
    const { fetch, statuses } = recordingFetch();
    const prompt = scripted({ text: 'back again' });
    const { text } = await generateText({ model: provider({ fetch })(KILLABLE), prompt, maxRetries: 10 });
    assert.equal(text, 'back again');
    assert.equal(statuses[0], 503);
    assert.equal(statuses.at(-1), 200);
  });
});

interface ErrorBody {
  error: { message: string; code: string; param: string | null };
}
