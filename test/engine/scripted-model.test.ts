import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { ScriptedEngine, ScriptedPrefixCache } from '../support/scripted-engine/engine.ts';
import type { ChatRequest, Message, EngineEvent } from '../../src/core/generation.ts';
import { chat, collect, NEVER_ABORTED, text, textOf } from './requests.ts';

/** Tokens per block of the modeled cache, and characters per token. */
const BLOCK = 16;
const TOKEN = 4;

/** A text of this many tokens. Texts with different names have different first tokens. */
function words(name: string, tokens: number): string {
  return name.repeat(tokens * TOKEN).slice(0, tokens * TOKEN);
}

function talk(messages: readonly Message[], more: Partial<ChatRequest> = {}): ChatRequest {
  return chat({}, { cacheScope: 'account', messages, ...more });
}

const user = (content: string): Message => ({ role: 'user', content });

function cachedTokens(events: readonly EngineEvent[]): number {
  const end = events.at(-1);
  assert(end?.type === 'end');
  return end.usage.cachedTokens;
}

test('a prompt is cached in complete blocks, except for its last token', async () => {
  const engine = new ScriptedEngine({ cacheTokens: 4096 });
  const run = async (tokens: number) =>
    cachedTokens(await collect(engine.generate(talk([user(words('a', tokens))]), NEVER_ABORTED)));
  assert.equal(await run(100), 0);
  assert.equal(await run(100), 6 * BLOCK);
  assert.equal(await run(6 * BLOCK), 6 * BLOCK - 1);
});

test('the completion is cached for the next turn', async () => {
  const engine = new ScriptedEngine({ cacheTokens: 4096 });
  const question = user(words('a', 100));
  const events = await collect(engine.generate(talk([question], { maxTokens: 200 }), NEVER_ABORTED));
  const content = textOf(events);
  const answer: Message = { role: 'assistant', content, reasoning: null, toolCalls: [] };
  const next = talk([question, answer, user('and now?')]);
  const cached = cachedTokens(await collect(engine.generate(next, NEVER_ABORTED)));
  assert.ok(cached > 100 && cached <= 101 + content.length / TOKEN, `${cached} tokens`);
});

test('prompts are cached only in their scope, and not at all without one', async () => {
  const engine = new ScriptedEngine({ cacheTokens: 4096 });
  const run = async (cacheScope: string | null) =>
    cachedTokens(await collect(engine.generate(talk([user(words('a', 64))], { cacheScope }), NEVER_ABORTED)));
  assert.deepEqual([await run('a'), await run('b'), await run(null), await run(null)], [0, 0, 0, 0]);
  assert.equal(await run('a'), 63);
});

test('the cache keeps the most recently used blocks', () => {
  const names = fc.array(fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'), { maxLength: 30 });
  fc.assert(
    fc.property(names, fc.integer({ min: 1, max: 6 }), (used, maxPrompts) => {
      const cache = new ScriptedPrefixCache(maxPrompts * 2 * BLOCK);
      const promptOf = (name: string) =>
        text({}, { cacheScope: 'account', prompts: [words(name, 2 * BLOCK)] });
      for (const name of used) cache.add(promptOf(name), '');
      const kept = new Set([...new Set(used.toReversed())].slice(0, maxPrompts));
      for (const name of used)
        assert.equal(cache.cachedTokens(promptOf(name)), kept.has(name) ? 2 * BLOCK : 0);
    }),
  );
});

/** Lets promises settle, and runs turns of the event loop that do not depend on timers. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Runs requests on an engine whose clock is mocked. Returns the time of the first token and of the end of each. */
async function timesOf(
  engine: ScriptedEngine,
  requests: readonly ChatRequest[],
  untilMs: number,
): Promise<{ firstMs: number; endMs: number }[]> {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    let now = 0;
    const times = requests.map(() => ({ firstMs: NaN, endMs: NaN }));
    const runs = requests.map(async (request, index) => {
      const time = times[index];
      assert.ok(time);
      for await (const event of engine.generate(request, NEVER_ABORTED)) {
        if (event.type === 'token' && Number.isNaN(time.firstMs)) time.firstMs = now;
        if (event.type === 'end') time.endMs = now;
      }
    });
    await settle();
    while (now < untilMs) {
      now++;
      mock.timers.tick(1);
      await settle();
    }
    await Promise.all(runs);
    return times;
  } finally {
    mock.timers.reset();
  }
}

test('prompts are processed one at a time, and their cached tokens take no time', async () => {
  const engine = new ScriptedEngine({ cacheTokens: 4096, promptTokenMs: 2 });
  const requests = [words('a', 20), words('b', 10), words('a', 20)].map((content) =>
    talk([user(content)], { maxTokens: 1 }),
  );
  const times = await timesOf(engine, requests, 80);
  assert.deepEqual(
    times.map(({ firstMs }) => firstMs),
    [40, 60, 68],
  );
});

test('each running request slows down the tokens of the other requests', async () => {
  const engine = new ScriptedEngine({ tokenMs: 5, tokenMsPerRequest: 3 });
  const request = talk([user('a')], { maxTokens: 4 });
  const [alone] = await timesOf(engine, [request], 40);
  assert.equal(alone && alone.endMs - alone.firstMs, 15);
  const three = await timesOf(engine, [request, request, request], 80);
  assert.deepEqual(
    three.map(({ firstMs, endMs }) => endMs - firstMs),
    [33, 33, 33],
  );
});

test('the cache usage is the share of the cache that prompts in slots use', async () => {
  const engine = new ScriptedEngine({ cacheTokens: 160 });
  assert.equal(engine.cacheUsage, 0);
  const events = engine.generate(talk([user(words('a', 40))]), NEVER_ABORTED);
  await events.next();
  assert.equal(engine.cacheUsage, 0.25);
  await events.return(undefined);
  assert.equal(engine.cacheUsage, 0);
});
