import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { APICallError, generateText, isStepCount, streamText, tool } from 'ai';
import { z } from 'zod';
import { scripted } from '../../support/scripted-engine/directive.ts';
import { jsonObject } from '../../../src/json/values.ts';
import { catchError, SCRIPTED, startForClients } from './fixture.ts';

const service = await startForClients();
after(() => service[Symbol.asyncDispose]());

const options = { baseURL: `${service.url}/v1`, apiKey: service.key };
const openai = createOpenAI(options)(SCRIPTED);

// Disables a warning about the default of `maxOutputTokens`.
globalThis.AI_SDK_LOG_WARNINGS = false;

/** The providers with the endpoint that they use by default, and the types of what they send in the second step of a loop. */
const PROVIDERS = [
  {
    name: '@ai-sdk/openai, which uses responses',
    model: openai,
    providerOptions: { openai: { store: false, include: ['reasoning.encrypted_content'] } },
    // This provider reads only summaries.
    reasoning: '',
    sent: (body: Record<string, unknown>) => types(body['input']),
    expected: ['user', 'reasoning', 'assistant', 'function_call', 'function_call_output'],
  },
  {
    name: '@ai-sdk/anthropic, which uses messages',
    model: createAnthropic(options)(SCRIPTED),
    providerOptions: {} as Record<string, never>,
    reasoning: 'The weather.',
    sent: ({ messages }: Record<string, unknown>) =>
      (messages as { content: unknown }[]).flatMap(({ content }) => types(content)),
    expected: ['text', 'thinking', 'text', 'tool_use', 'tool_result'],
  },
];

function types(items: unknown): unknown[] {
  return (items as { type?: string; role?: string }[]).map(({ type, role }) => type ?? role);
}

const directive = {
  reasoning: 'The weather.',
  text: 'One moment 🙂.',
  calls: [{ name: 'get_weather', arguments: { city: 'Zürich' } }],
};
const loop = {
  prompt: scripted([directive, { text: 'Rain in Zürich.' }]),
  tools: {
    get_weather: tool({
      inputSchema: z.object({ city: z.string() }),
      execute: ({ city }) => `Rain in ${city}.`,
    }),
  },
  stopWhen: isStepCount(2),
  include: { requestBody: true },
};

for (const { name, model, providerOptions, reasoning, sent, expected } of PROVIDERS) {
  describe(name, () => {
    test('a response and its stream have the same text and usage', async () => {
      const request = { model, providerOptions, prompt: scripted({ text: 'Hello 🙂!' }) };
      const whole = await generateText(request);
      const stream = streamText(request);
      assert.deepEqual([whole.text, whole.finishReason], ['Hello 🙂!', 'stop']);
      assert.deepEqual([await stream.text, await stream.finishReason], ['Hello 🙂!', 'stop']);
      const { inputTokens, outputTokens } = await stream.usage;
      assert.ok(inputTokens && outputTokens);
      assert.deepEqual([whole.usage.inputTokens, whole.usage.outputTokens], [inputTokens, outputTokens]);
    });

    test('a tool is called, and its result is sent back with the call, the text and the reasoning', async () => {
      const whole = await generateText({ ...loop, model, providerOptions });
      const stream = streamText({ ...loop, model, providerOptions });
      for (const steps of [whole.steps, await stream.steps]) {
        const [first, second] = steps;
        assert.deepEqual([first?.text, first?.reasoningText ?? ''], [directive.text, reasoning]);
        assert.deepEqual(
          first?.toolCalls.map(({ toolName, input }) => ({ name: toolName, arguments: input as object })),
          directive.calls,
        );
        assert.deepEqual([first?.finishReason, second?.text], ['tool-calls', 'Rain in Zürich.']);
        assert.deepEqual(second && sent(bodyOf(second.request.body)), expected);
      }
    });
  });
}

/** A body is an object or its JSON, depending on the provider and on whether it is a stream. */
function bodyOf(body: unknown): Record<string, unknown> {
  return jsonObject(typeof body === 'string' ? (JSON.parse(body) as unknown) : body);
}

test('the second step of a tool loop without `store: false` is refused with the option to set', async () => {
  const error = await catchError(generateText({ ...loop, model: openai }));
  assert.ok(APICallError.isInstance(error), String(error));
  assert.equal(error.statusCode, 400);
  assert.match(error.message, /`providerOptions: \{ openai: \{ store: false \} \}`/);
});
