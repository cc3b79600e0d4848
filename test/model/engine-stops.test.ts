import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { LlamaEngine } from '../../src/engine/llama/engine.ts';
import { NO_USAGE, type ChatRequest, type Continuation } from '../../src/core/generation.ts';
import { GREEDY } from '../generation-requests.ts';
import { chat, complete, exactly, loadEngine, MODELS, SKIP, text } from './embedded-engine.ts';

const TEXT = 'one two three, 東京 🙂🙃 is done';
const JSON_TEXT = JSON.stringify(TEXT);

interface Case {
  /** Whether it is checked with every vocabulary. */
  everywhere?: boolean;
  stop: string[];
  /** The one that ends `TEXT`. */
  found: string | null;
}

/** Stop sequences whose end may be in the middle of a token, character sequence or word. */
const ENDS: readonly Case[] = [
  { stop: ['o th'], found: 'o th', everywhere: true },
  { stop: ['wo three, 東'], found: 'wo three, 東' },
  { stop: ['京'], found: '京' },
  { stop: ['🙂🙃 i'], found: '🙂🙃 i', everywhere: true },
  { stop: ['four', 'donee'], found: null },
];

/** Several stop sequences. */
const SEVERAL: readonly Case[] = [
  { stop: ['done', 'two'], found: 'two' },
  // The first complete one ends the text, so that a longer one with the same start is never found.
  { stop: ['two three', 'two'], found: 'two' },
  { stop: ['two', 'two three'], found: 'two' },
  // Several are complete at the same character: the longest one.
  { stop: ['wo t', 'two t', 'o t'], found: 'two t' },
  { stop: ['two four', 'e two t', 'two f'], found: 'e two t' },
];

async function assertEnds(engine: LlamaEngine, cases: readonly Case[]): Promise<void> {
  const request = text('Write.', { maxTokens: 100, responseFormat: exactly(TEXT) });
  // In turns, they would take about twice the time.
  const ends = await Promise.all(cases.map(({ stop }) => complete(engine, { ...request, stop })));
  for (const [at, { texts, reasons, stopSequences }] of ends.entries()) {
    const { stop, found } = cases[at] as Case;
    const cut = found === null ? JSON_TEXT : JSON_TEXT.slice(0, JSON_TEXT.indexOf(found));
    assert.deepEqual([texts, reasons, stopSequences], [[cut], ['stop'], [found]], stop.join());
  }
}

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
      await assertEnds(engine, name === MODELS[0]?.name ? ENDS : ENDS.filter(({ everywhere }) => everywhere));
    });

    test('is reported by a generation that continues inside or right after it', async () => {
      const request = text('Write.', {
        maxTokens: 100,
        responseFormat: exactly(TEXT),
        tokenIds: true,
        cacheScope: 'test',
      });
      const whole = await complete(engine, request);
      const tokenIds: number[] = [];
      /** Tokens after which the text has the first stop sequence, and one that begins before it. */
      const counts: number[] = [];
      let seen = '';
      for (const event of whole.events) {
        if (event.type !== 'token') continue;
        if (!seen.includes('three,'))
          counts.push(...(event.tokenIds ?? []).map((_, at) => tokenIds.length + at + 1));
        tokenIds.push(...(event.tokenIds ?? []));
        seen += event.text;
      }
      assert.ok(counts.length > 2 && counts.length < tokenIds.length);
      const stop = ['three', 'two three, 東京 🙂'];
      for (const count of [...counts, tokenIds.length - 1]) {
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

  test('is the first complete one of several, or the longest of those', async () => {
    await assertEnds(engine, SEVERAL);
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
