import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { costOf } from '../../src/accounts/ledger/cost.ts';
import { ChatTemplate } from '../../src/engine/llama/prompt/template.ts';
import { ServiceError } from '../../src/core/errors.ts';
import {
  NO_OUTPUT,
  type ChatRequest,
  type Message,
  type ModelCard,
  type Tool,
} from '../../src/core/generation.ts';
import { clampUsage, shortestCase, worstCase } from '../../src/inference/request-accounting.ts';
import type { ConfiguredModel } from '../../src/routing/served-model.ts';
import { PUBLISHED } from '../engine/llama/templates.ts';
import { chat, text } from '../engine/requests.ts';

/** The fields of a model that the worst case depends on. */
function modelOf(context: number, most: number, price: ConfiguredModel['price']): ConfiguredModel {
  // Only these two fields of a card are read.
  const card = { context_length: context, max_completion_tokens: most } as ModelCard;
  return { id: 'a/b', required: false, price, card: () => card };
}

interface GivenPrices {
  prompt: number;
  completion: number;
  /** Null: no separate price. */
  cached: number | null;
}

function priceOf({ prompt, completion, cached }: GivenPrices): ConfiguredModel['price'] {
  return { prompt, completion, inputCacheRead: cached === null ? null : Math.min(cached, prompt) };
}

const cases = fc.record({
  text: fc.string({ maxLength: 300, unit: 'binary' }),
  maxTokens: fc.option(fc.integer({ min: 1, max: 600 })),
  choices: fc.integer({ min: 1, max: 3 }),
  context: fc.integer({ min: 2, max: 5000 }),
  most: fc.integer({ min: 1, max: 500 }),
  prompt: fc.nat(1000),
  completion: fc.nat(1000),
  cached: fc.option(fc.nat(1000)),
  /** The real counts as a fraction of the maximum. */
  promptShare: fc.double({ min: 0, max: 1, noNaN: true }),
  cachedShare: fc.double({ min: 0, max: 1, noNaN: true }),
  completionShare: fc.double({ min: 0, max: 1, noNaN: true }),
});

test('no possible usage of a request exceeds its worst case', () => {
  fc.assert(
    fc.property(cases, (given) => {
      const { text, maxTokens, choices, context, most } = given;
      const price = priceOf(given);
      const content = text.toWellFormed();
      const messages = [{ role: 'user' as const, content }];
      const request = { ...chat(), messages, maxTokens, choices };
      const worst = worstCase(request, modelOf(context, Math.min(most, context), price));
      const promptTokens = Math.min(
        Math.ceil(given.promptShare * (Buffer.byteLength(content) + 2072)),
        context - 1,
      );
      const longest = Math.min(maxTokens ?? Infinity, most, context - promptTokens);
      const completionTokens = Math.floor(given.completionShare * longest) * choices;
      assert.ok(promptTokens + completionTokens <= worst.tokens);
      const cachedTokens = Math.floor(given.cachedShare * promptTokens);
      const usage = { promptTokens, completionTokens, cachedTokens, reasoningTokens: 0 };
      assert.ok(costOf(usage, price) <= worst.pico);
      assert.equal(clampUsage(usage, worst), null);
    }),
    { numRuns: 2000 },
  );
});

test('the shortest case of a request is its worst case with a max_tokens of 1', () => {
  fc.assert(
    fc.property(cases, ({ text: prompt, maxTokens, choices, context, most, ...given }) => {
      const price = priceOf(given);
      const model = modelOf(context, Math.min(most, context), price);
      const request = { ...text(), prompts: ['x', prompt.toWellFormed()], maxTokens, choices };
      const shortest = shortestCase(request, model, null);
      const { tokens, pico } = worstCase({ ...request, maxTokens: 1 }, model);
      assert.deepEqual(shortest, { tokens, pico });
    }),
  );
});

test('an embedding cannot be shorter', () => {
  const embedding = { ...NO_OUTPUT, kind: 'embedding', inputs: ['a', 'bc'], dimensions: null } as const;
  const request = { ...embedding, model: 'test/model', cacheScope: null, traceparent: null, user: null };
  const model = modelOf(100, 0, { prompt: 2, completion: 3, inputCacheRead: null });
  const { tokens, pico } = worstCase(request, model);
  assert.deepEqual(shortestCase(request, model, null), { tokens, pico });
});

test(
  'no chat template adds more tokens than the worst case includes',
  { skip: PUBLISHED.length === 0 },
  () => {
    const model = modelOf(1_000_000, 1, { prompt: 1, completion: 1, inputCacheRead: null });
    const round = (calls: number, args = {}): Message[] => {
      const toolCalls = Array.from({ length: calls }, (_, index) => ({
        id: `call_${index}`,
        name: 'a',
        arguments: JSON.stringify(args),
      }));
      return [
        { role: 'user', content: 'x' },
        { role: 'assistant', content: null, reasoning: null, toolCalls },
        ...toolCalls.map(({ id }): Message => ({ role: 'tool', toolCallId: id, content: 'y' })),
        { role: 'assistant', content: 'z', reasoning: null, toolCalls: [] },
      ];
    };
    const tools = [{ name: 'a', description: null, parameters: { type: 'object' }, strict: false }];
    const chats: Partial<ChatRequest>[] = [
      { messages: [{ role: 'user', content: 'x' }] },
      { messages: [{ role: 'user', content: 'x' }], tools },
      { messages: Array.from({ length: 20 }, () => round(1)).flat(), tools },
      { messages: round(20), tools },
      { messages: round(1, MANY_PROPERTIES.properties), tools },
      {
        messages: round(
          1,
          Object.fromEntries(Object.keys(MANY_PROPERTIES.properties).map((name) => [name, 1])),
        ),
        tools,
      },
      { messages: Array.from({ length: 200 }, () => SYSTEM_IN_CHAT).flat() },
      { messages: [{ role: 'user', content: 'x' }], tools: [{ ...FIND, parameters: MANY_PROPERTIES }] },
      {
        messages: [{ role: 'user', content: 'x' }],
        templateVariables: { documents: [{ title: 'a', text: 'One word. '.repeat(5000) }] },
      },
    ];
    for (const { name, source } of PUBLISHED) {
      const template = new ChatTemplate(source, { bos: '<s>', eos: '</s>' });
      for (const fields of chats) {
        const request = chat({}, fields);
        const characters = renderedLength(template, request);
        // A token has at least three characters of English text, or of tags that are not control tokens.
        assert.ok(
          characters / 3 <= worstCase(request, model).promptTokens,
          `${name}: ${characters} characters`,
        );
      }
    }
  },
);

test(
  'no chat template writes a text in more bytes than the worst case includes',
  { skip: PUBLISHED.length === 0 },
  () => {
    const model = modelOf(10_000_000, 1, { prompt: 1, completion: 1, inputCacheRead: null });
    const places = {
      user: (text: string) => chatWith({ user: text }),
      result: (text: string) => chatWith({ result: text }),
      argument: (text: string) => chatWith({ argument: text }),
      description: (text: string) => chatWith({ description: text }),
      parameter: (text: string) => chatWith({ parameter: text }),
    };
    const texts = ['é', '語', '😀', '"', '\\', '\u0001', '\u007f', '<'];
    for (const { name, source } of PUBLISHED) {
      const template = new ChatTemplate(source, { bos: '<s>', eos: '</s>' });
      for (const [place, request] of Object.entries(places)) {
        for (const text of texts) {
          const [short, long] = [request(`a ${text}`), request(`a ${text.repeat(1000)}`)];
          const bytes = renderedBytes(template, long) - renderedBytes(template, short);
          const tokens = worstCase(long, model).promptTokens - worstCase(short, model).promptTokens;
          // A token has at least one byte.
          assert.ok(bytes <= tokens, `${name}: ${bytes} bytes of ${text} in ${place}, ${tokens} tokens`);
        }
      }
    }
  },
);

/** A chat with a call, and texts in some places. */
function chatWith({
  user = 'Hi',
  result = 'It.',
  argument = 'b',
  description = 'Finds.',
  parameter = 'c',
}): ChatRequest {
  const toolCalls = [{ id: 'call_1', name: 'find', arguments: JSON.stringify({ q: argument }) }];
  const properties = { q: { type: 'string', description: parameter } };
  return chat(
    {},
    {
      messages: [
        { role: 'user', content: user },
        { role: 'assistant', content: null, reasoning: null, toolCalls },
        { role: 'tool', toolCallId: 'call_1', content: result },
      ],
      tools: [{ name: 'find', description, parameters: { type: 'object', properties }, strict: false }],
    },
  );
}

function renderedBytes(template: ChatTemplate, request: ChatRequest): number {
  return template.render(request).segments.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
}

const FIND: Tool = { name: 'find', description: null, parameters: { type: 'object' }, strict: false };

/** Templates that write tools as XML or code add most for properties with short names. */
const MANY_PROPERTIES = {
  type: 'object',
  properties: Object.fromEntries(Array.from({ length: 700 }, (_, i) => [`p${i}`, { type: 'null' }])),
};

const SYSTEM_IN_CHAT: readonly Message[] = [
  { role: 'user', content: 'x' },
  { role: 'assistant', content: 'y', reasoning: null, toolCalls: [] },
  { role: 'system', content: 'z' },
];

/**
 * Returns the number of characters of the prompt. Counts a control token as one, and returns 0 if the template refuses
 * several calls in one message.
 */
function renderedLength(template: ChatTemplate, request: ChatRequest): number {
  try {
    return template
      .render(request)
      .segments.map(({ text }) => text)
      .join('')
      .replaceAll(/<\|[^|]*\|>/g, '…').length;
  } catch (error) {
    if (error instanceof ServiceError) return 0;
    throw error;
  }
}

test('usage reported by a replica is limited to the reservation, in tokens and in money', () => {
  const count = fc.oneof(fc.nat(2000), fc.maxSafeNat());
  const reported = fc.record({
    promptTokens: count,
    completionTokens: count,
    cachedTokens: count,
    reasoningTokens: fc.constant(0),
  });
  fc.assert(
    fc.property(cases, reported, fc.boolean(), (given, usage, isText) => {
      const { maxTokens, choices, context, most } = given;
      const price = priceOf(given);
      const content = given.text.toWellFormed();
      const request = isText
        ? { ...text({}, { prompts: [content, 'second'] }), maxTokens, choices }
        : { ...chat({}, { messages: [{ role: 'user', content }] }), maxTokens, choices };
      const worst = worstCase(request, modelOf(context, Math.min(most, context), price));
      const clamped = clampUsage(usage, worst) ?? usage;
      assert.ok(clamped.promptTokens + clamped.completionTokens <= worst.tokens);
      assert.ok(clamped.promptTokens >= 0 && clamped.completionTokens >= 0);
      assert.ok(clamped.cachedTokens <= clamped.promptTokens);
      const cost = costOf(clamped, price);
      assert.ok(cost >= 0n && cost <= worst.pico);
      assert.ok(clamped.promptTokens <= usage.promptTokens);
      assert.ok(clamped.completionTokens <= usage.completionTokens);
      assert.equal(clampUsage(clamped, worst), null);
    }),
    { numRuns: 2000 },
  );
});

test('one choice never reserves more than the context', () => {
  const model = modelOf(200, 200, { prompt: 1, completion: 2, inputCacheRead: null });
  const request = { ...chat({ text: 'x'.repeat(1000) }), maxTokens: null };
  assert.equal(worstCase(request, model).tokens, 200);
});

test('the escapes of results and arguments, the variables of the template and the schema of the response count', () => {
  const model = modelOf(1_000_000, 1, { prompt: 1, completion: 1, inputCacheRead: null });
  const worst = (fields: Partial<ChatRequest>): number => worstCase(chat({}, fields), model).promptTokens;
  const bare = worst({});
  const long = 'word '.repeat(10_000);
  assert.ok(worst({ templateVariables: { documents: [long] } }) - bare >= 50_000);
  const schema = { description: long };
  const responseFormat = { type: 'json_schema', name: 'x', schema, strict: null } as const;
  assert.ok(worst({ responseFormat }) - bare >= 50_000);
  // A control character takes six bytes in JSON.
  const control = '\u0001'.repeat(10_000);
  const call = { id: 'c', name: 'find', arguments: '{}' };
  const messages: Message[] = [
    { role: 'assistant', content: null, reasoning: null, toolCalls: [call] },
    { role: 'tool', toolCallId: 'c', content: control },
  ];
  assert.ok(worst({ messages }) >= 60_000);
});

test('the escapes of a chat that fills the context are not counted', () => {
  const stringify = mock.method(JSON, 'stringify');
  const texts = ['{"a":"\\\\"}', `{"a":"${'\\\\'.repeat(5000)}"}`];
  const counted = texts.map((text) => {
    const toolCalls = [{ id: 'a', name: 'f', arguments: text }];
    const messages: Message[] = [
      { role: 'assistant', content: null, reasoning: null, toolCalls },
      { role: 'tool', toolCallId: 'a', content: text },
    ];
    const request = { ...chat(), messages };
    stringify.mock.resetCalls();
    worstCase(request, modelOf(5000, 100, { prompt: 0, completion: 0, inputCacheRead: null }));
    return stringify.mock.callCount() > 0;
  });
  stringify.mock.restore();
  assert.deepEqual(counted, [true, false]);
});
