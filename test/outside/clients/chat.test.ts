import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { z } from 'zod';
import { scripted } from '../../support/scripted-engine/directive.ts';
import { untilIdle } from '../../harness.ts';
import { ONE_WORD } from '../../support/default-model.ts';
import { chatClients, type Call } from './chat-clients.ts';
import {
  advanceByRetryAfter,
  CALLS,
  catchError,
  fillQueue,
  FOREVER,
  KILLABLE,
  killEngine,
  limitedKeys,
  REAL,
  recordingFetch,
  startForClients,
  TOO_LARGE,
  TOO_LONG,
  WITH_MODEL,
} from './fixture.ts';

const service = await startForClients();
after(() => service[Symbol.asyncDispose]());
const keys = await limitedKeys(service);

/** Requests that are refused, with the status, code and param of the error. */
const REFUSALS: readonly [Partial<Call>, readonly [number, string, string | null]][] = [
  [{ temperature: 3 }, [400, 'invalid_value', 'temperature']],
  [{ apiKey: 'sk-sluice-no' }, [401, 'invalid_api_key', null]],
  [{ apiKey: keys.otherModel }, [403, 'model_not_allowed', 'model']],
  [{ apiKey: keys.spent }, [429, 'insufficient_quota', null]],
  [{ model: 'acme/missing' }, [404, 'model_not_found', 'model']],
  [{ prompt: TOO_LONG }, [400, 'context_length_exceeded', 'messages']],
  [{ prompt: TOO_LARGE }, [413, 'request_too_large', null]],
  [{ prompt: scripted({ error: 'internal_error' }) }, [500, 'internal_error', null]],
  [{ prompt: scripted({ error: 'engine_unavailable' }) }, [503, 'engine_unavailable', null]],
];

for (const [name, client] of Object.entries(chatClients(service.url, service.key))) {
  describe(`${name}, with the real model`, WITH_MODEL, () => {
    const real = { model: REAL, temperature: 0, maxTokens: 8, logitBias: ONE_WORD };

    test('a chat and its stream are equal and have usage', async () => {
      const call = { ...real, prompt: 'Name three colors.' };
      const whole = await client.ask(call);
      assert.equal(whole.text, ' the'.repeat(8));
      assert.equal(whole.finishReason, 'length');
      assert.equal(whole.completionTokens, 8);
      assert.ok((whole.promptTokens ?? 0) > 0);
      let text = '';
      assert.deepEqual(await client.stream(call, (part) => (text += part)), whole);
      assert.equal(text, whole.text);
    });

    test('a text completion returns its text', async () => {
      const text = await client.complete({ ...real, prompt: 'The capital of France is', maxTokens: 4 });
      assert.equal(text, ' the the the the');
    });

    test('structured output is parsed by the library', async () => {
      const schema = z.object({ size: z.enum(['small', 'large']), capital: z.boolean() });
      const call = { model: REAL, temperature: 0, prompt: 'Describe Paris as JSON.' };
      const output = await client.describe(schema, call);
      assert.deepEqual(schema.parse(output), output);
    });
  });

  describe(name, () => {
    test('a response and its stream have the reasoning, the text and the calls', async () => {
      const call = { prompt: scripted(CALLS) };
      const [whole, streamed] = [await client.ask(call), await client.stream(call)];
      for (const { text, reasoning = CALLS.reasoning, calls, finishReason, reasoningTokens } of [
        whole,
        streamed,
      ]) {
        assert.deepEqual({ text, reasoning, calls }, CALLS);
        assert.deepEqual([finishReason, reasoningTokens], ['tool_calls', 5]);
      }
    });

    test('an abort during the stream frees the slot', async () => {
      const stop = new AbortController();
      let text = '';
      const prompt = scripted({ tokens: 1000, tokenMs: 5 });
      const call = client.stream({ prompt, signal: stop.signal }, (part) => {
        text += part;
        stop.abort();
      });
      await assert.rejects(call, client.aborted);
      assert.notEqual(text, '');
      await untilIdle(service);
    });

    test('an abort before the first byte frees the slot', async () => {
      const stop = new AbortController();
      const call = client.ask({ prompt: scripted({ prefillMs: FOREVER }), signal: stop.signal });
      stop.abort();
      await assert.rejects(call, client.aborted);
      await untilIdle(service);
    });

    test('leaving a stream frees the slot', async () => {
      await client.stream({ prompt: scripted({ tokens: 1000, tokenMs: 5 }) }, () => false);
      await untilIdle(service);
    });

    test('a timeout of the library frees the slot', async () => {
      const call = client.ask({ prompt: scripted({ prefillMs: FOREVER }), timeoutMs: 200 });
      await assert.rejects(call, client.timeout);
      await untilIdle(service);
    });

    for (const [fields, expected] of REFUSALS) {
      test(`the error is ${expected[1]}, streaming or not`, async () => {
        const call = { prompt: 'Hi', ...fields };
        for (const error of [await catchError(client.ask(call)), await catchError(client.stream(call))]) {
          const { status, code, param } = client.refusal(error);
          assert.deepEqual([status, code, param], expected);
        }
      });
    }

    test('the error is requests_per_minute, with the wait and the remaining requests', async () => {
      const call = { prompt: 'Hi', apiKey: await keys.brief() };
      await client.ask(call);
      const { status, code, headers } = client.refusal(await catchError(client.ask(call)));
      assert.deepEqual([status, code], [429, 'requests_per_minute']);
      assert.equal(headers.get('retry-after-ms'), '100');
      assert.equal(headers.get('x-ratelimit-remaining-requests'), '0');
    });

    if (!client.ignoresShouldRetry) {
      test('insufficient_quota is not retried', async () => {
        const { fetch, statuses } = recordingFetch();
        const call = { prompt: 'Hi', apiKey: keys.spent, maxRetries: 2, fetch };
        const { code, headers } = client.refusal(await catchError(client.ask(call)));
        assert.deepEqual([code, headers.get('x-should-retry')], ['insufficient_quota', 'false']);
        assert.deepEqual(statuses, [429]);
      });
    }

    test('an error during the stream is thrown after the text before it', async () => {
      let parts = 0;
      const call = { prompt: scripted({ tokens: 10, errorAfter: 3 }) };
      const error = await catchError(client.stream(call, () => void parts++));
      assert.equal(client.refusal(error).code, 'internal_error');
      assert.equal(parts, 3);
    });

    test('retries if the queue is full', async () => {
      const full = await fillQueue(service);
      const { fetch, statuses } = recordingFetch(async () => full[Symbol.asyncDispose]());
      const { text } = await client.ask({ prompt: scripted({ text: 'at last' }), maxRetries: 2, fetch });
      assert.equal(text, 'at last');
      assert.deepEqual(statuses, [503, 200]);
    });

    test('retries if the engine has crashed', async () => {
      await killEngine(service);
      const { fetch, statuses } = recordingFetch();
      const prompt = scripted({ text: 'back again' });
      const { text } = await client.ask({ model: KILLABLE, prompt, maxRetries: 10, fetch });
      assert.equal(text, 'back again');
      assert.equal(statuses[0], 503);
      assert.equal(statuses.at(-1), 200);
    });

    test('retries if a limit is exceeded, and succeeds after the time in the headers', async () => {
      const { fetch, statuses } = recordingFetch(advanceByRetryAfter(service));
      const call = { apiKey: await keys.brief(), maxRetries: 2, fetch };
      await client.ask({ ...call, prompt: 'Hi' });
      const { text } = await client.ask({ ...call, prompt: scripted({ text: 'at last' }) });
      assert.equal(text, 'at last');
      assert.deepEqual(statuses, [200, 429, 200]);
    });
  });
}
