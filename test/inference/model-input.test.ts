import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assert as check, constantFrom, integer, property, string } from '../support/fast-check.ts';
import { describeInput, readModelInput, type ModelInput } from '../../src/inference/model-input.ts';
import { Notes } from '../../src/core/notes.ts';
import { chat, text } from '../protocols/openai/samples.ts';

const CARD = {
  id: 'ns/m',
  architecture: { instruct_type: 'chatml', modality: 'text->text', tokenizer: 'GPT' },
  context_length: 4096,
  max_completion_tokens: 4096,
  pricing: { prompt: '1', completion: '1' },
  quantization: 'q4_1',
  created: 1,
  owned_by: 'ns',
  recommendedSampling: { temperature: 0.7, topP: 0.8 },
  defaultSampling: {},
  toolFormat: 'hermes',
  tools: null,
  reasoning: null,
};
const MODEL = { card: () => CARD, dialects: ['sluice'] as const };

/** The description as it is read from the ledger. */
const described = (...args: Parameters<typeof describeInput>): ModelInput => {
  const input = readModelInput(describeInput(...args));
  assert.ok(input !== null);
  return input;
};

test('the model input of a chat has counts, settings and the chat template', () => {
  const { request } = chat({
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Hello' },
      { role: 'user', content: 'Bye' },
    ],
    tools: [{ type: 'function', function: { name: 'f' } }],
    reasoning_effort: 'low',
    chat_template_kwargs: { enable_thinking: false, budget: 5, note: 'private' },
    temperature: 0.5,
    stop: ['x', 'y'],
    max_tokens: 7,
  });
  assert.deepEqual(described(request, MODEL, new Notes()), {
    messages: { system: 1, user: 2, assistant: 1 },
    prompts: null,
    dimensions: null,
    images: [],
    tools: 1,
    tool_choice: 'auto',
    tool_format: 'hermes',
    response_format: 'text',
    reasoning_effort: 'low',
    template: 'chatml',
    template_variables: { enable_thinking: false, budget: 5, note: null },
    max_tokens: 7,
    stop_sequences: 2,
    choices: 1,
    sampling: {
      temperature: 0.5,
      top_p: 1,
      top_k: null,
      min_p: 0,
      seed: null,
      presence_penalty: 0,
      frequency_penalty: 0,
      repetition_penalty: 1,
      logit_bias: 0,
    },
    recommended_sampling: { temperature: 0.7, top_p: 0.8 },
    notes: [],
    more_notes: 0,
  });
});

test('the model input of a text completion has its prompts, and no template or tools', () => {
  const { request } = text({ prompt: ['a', 'b'] });
  const { messages, prompts, template, tool_choice, tool_format } = described(request, MODEL, new Notes());
  assert.deepEqual([messages, prompts, template, tool_choice, tool_format], [null, 2, null, null, null]);
});

test('parameters that the caller did not set are unknown if a provider has its own defaults', () => {
  const { request } = chat({ top_p: 0.5 });
  const { sampling } = described(request, { card: () => null, dialects: ['openai'] }, new Notes());
  assert.deepEqual([sampling.temperature, sampling.top_p, sampling.presence_penalty], [null, 0.5, null]);
});

test('the ledger stores only what is unusual in a model input', () => {
  const input = describeInput(chat().request, { card: () => null, dialects: ['sluice'] }, new Notes());
  assert.equal(input, '{"messages":{"user":1},"sampling":{}}');
});

test('the notes of a model input are bounded, and the others are counted', () => {
  const notes = new Notes();
  for (let at = 0; at < 100; at++) notes.add(`${'x'.repeat(190)}${at}`, 'ignored');
  const { notes: kept, more_notes: more } = described(chat().request, MODEL, notes);
  assert.equal(kept.length + more, 100);
  assert.ok(kept.length > 0 && JSON.stringify(kept).length < 5000);
});

test('no text of a request is in its model input, whose size is bounded', () => {
  const secret = string({ minLength: 200, maxLength: 400, unit: constantFrom('s', 'e') });
  check(
    property(secret, integer({ min: 1, max: 60 }), (word, count) => {
      const { request } = chat({
        messages: [
          { role: 'system', content: word },
          { role: 'user', content: word },
        ],
        tools: [{ type: 'function', function: { name: 'f', description: word } }],
        stop: word,
        user: word,
        response_format: { type: 'json_schema', json_schema: { name: 'n', schema: { const: word } } },
        chat_template_kwargs: Object.fromEntries(
          Array.from({ length: count }, (_, at) => [`v${at}`, [word]]),
        ),
      });
      const json = JSON.stringify(described(request, MODEL, new Notes()));
      assert.ok(!json.includes(word.slice(0, 100)));
      assert.ok(json.length < 2000);
    }),
  );
});
