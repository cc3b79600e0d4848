import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { LlamaEngine } from '../../src/engine/llama/engine.ts';
import { NO_USAGE, type ChatRequest, type Continuation } from '../../src/generation.ts';
import { GREEDY } from '../generation-requests.ts';
import { chat, complete, exactly, loadEngine, MODELS, SKIP, text } from './embedded-engine.ts';

const TEXT = 'one two three, 東京 🙂🙃 is done';
const JSON_TEXT = JSON.stringify(TEXT);

/** Stop sequences with the one that ends `TEXT`. Its end may be in the middle of a token, character sequence or word. */
const CASES: readonly { stop: string[]; found: string | null }[] = [
  { stop: ['o th'], found: 'o th' },
  { stop: ['wo three, 東'], found: 'wo three, 東' },
  { stop: ['京'], found: '京' },
  { stop: ['🙂🙃 i'], found: '🙂🙃 i' },
  { stop: ['done', 'two'], found: 'two' },
  // The first complete one ends the text, so that a longer one with the same start is never found.
  { stop: ['two three', 'two'], found: 'two' },
  { stop: ['two', 'two three'], found: 'two' },
  // Several are complete at the same character: the longest one.
  { stop: ['wo t', 'two t', 'o t'], found: 'two t' },
  { stop: ['two four', 'e two t', 'two f'], found: 'e two t' },
  { stop: ['four', 'donee'], found: null },
  { stop: [], found: null },
];

const TOOLS: ChatRequest['tools'] = [
  { name: 'lamp', description: null, parameters: { type: 'object' }, strict: false },
];

for (const { name, file, options } of MODELS) {
  describe(`a stop sequence in a text of ${name}`, options, () => {
    let engine: LlamaEngine;

    before(async () => {
      engine = await loadEngine({ file, contextTokens: 512 });
    });

    after(async () => {
      await engine[Symbol.asyncDispose]();
    });

    test('ends the text, is not part of it, and is reported', async () => {
      const request = text('Write.', { maxTokens: 100, responseFormat: exactly(TEXT) });
      for (const { stop, found } of CASES) {
        const { texts, reasons, stopSequences } = await complete(engine, { ...request, stop });
        const cut = found === null ? JSON_TEXT : JSON_TEXT.slice(0, JSON_TEXT.indexOf(found));
        assert.deepEqual([texts, reasons, stopSequences], [[cut], ['stop'], [found]], stop.join());
      }
    });

    test('is reported by a generation that continues inside or right after it', async () => {
      const request = text('Write.', {
        maxTokens: 100,
        responseFormat: exactly(TEXT),
        tokenIds: true,
        cacheScope: 'test',
      });
      const whole = await complete(engine, request);
      const tokenIds = whole.events.flatMap((event) => ('tokenIds' in event ? (event.tokenIds ?? []) : []));
      const stop = ['three', 'two three, 東京 🙂'];
      for (let count = 1; count < tokenIds.length; count++) {
        const continuation: Continuation = {
          promptTokenIds: null,
          tokenIds: tokenIds.slice(0, count),
          text: '',
          usage: NO_USAGE,
        };
        const { reasons, stopSequences } = await complete(engine, { ...request, stop, continuation });
        assert.deepEqual([reasons, stopSequences], [['stop'], ['three']], `after ${count} tokens`);
      }
    });

    test('is found in each choice, and not in one that ends at max_tokens', async () => {
      const responseFormat = exactly(TEXT);
      const request = text('Write.', { maxTokens: 100, responseFormat, choices: 2, stop: ['two'] });
      const both = await complete(engine, request);
      assert.deepEqual(
        [both.reasons, both.stopSequences],
        [
          ['stop', 'stop'],
          ['two', 'two'],
        ],
      );
      const cut = await complete(engine, { ...request, maxTokens: 1 });
      assert.deepEqual(
        [cut.reasons, cut.stopSequences],
        [
          ['length', 'length'],
          [null, null],
        ],
      );
    });
  });
}

describe('a stop sequence of a chat', SKIP, () => {
  let engine: LlamaEngine;

  before(async () => {
    engine = await loadEngine();
  });

  after(async () => {
    await engine[Symbol.asyncDispose]();
  });

  test('is found in the text of an answer in a format', async () => {
    const request = chat('Write.', { maxTokens: 100, responseFormat: exactly(TEXT), stop: ['🙃 is'] });
    const { texts, stopSequences } = await complete(engine, request);
    assert.deepEqual([texts, stopSequences], [['"one two three, 東京 🙂'], ['🙃 is']]);
  });

  test('is found in the text of a model that may call tools', async () => {
    const sampling = { ...GREEDY, logitBias: new Map([[THE, 100]]) };
    const request = chat('Write.', { sampling, tools: TOOLS, stop: ['<', 'e the t'] });
    const { texts, reasons, stopSequences } = await complete(engine, request);
    assert.deepEqual([texts, reasons, stopSequences], [[' th'], ['stop'], ['e the t']]);
  });

  test('is not reported for a call', async () => {
    const toolChoice = { type: 'required' } as const;
    const request = chat('Turn it on.', {
      maxTokens: 150,
      tools: TOOLS,
      toolChoice,
      stop: ['lamp', '{', '"'],
    });
    const { texts, stopSequences } = await complete(engine, request);
    assert.deepEqual([texts, stopSequences], [[], [null]]);
  });
});

/** The token ` the`. */
const THE = 260;
