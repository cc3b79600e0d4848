import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { LlamaEngine } from '../../src/engine/llama/engine.ts';
import { temporaryFolder } from '../harness.ts';
import type { Message } from '../../src/core/generation.ts';
import { always, chat, complete, type Completion, loadEngine, text } from './embedded-engine.ts';
import { CACHE_MODELS } from './cache-models.ts';

const START =
  'There was a clockmaker in the old town by the sea who never slept. The name of his cat was Paris. ';
const WORDS = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'];

for (const model of CACHE_MODELS)
  describe(`cached prompts of ${model.name}`, model.options, () => {
    let engine: LlamaEngine;
    let folder: Awaited<ReturnType<typeof temporaryFolder>>;

    before(async () => {
      folder = await temporaryFolder();
      engine = await loadEngine({ file: model.file(folder.path), slots: 2, contextTokens: 1280 });
    });

    after(async () => {
      await engine[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    });

    /** Always generates the same tokens. Their probabilities depend on the whole prompt. */
    const generate = (prompt: string, cacheScope: string | null): Promise<Completion> =>
      complete(
        engine,
        text(prompt, { cacheScope, maxTokens: 3, logprobs: 0, sampling: always(model.token) }),
      );
    const isSame = (one: Completion, other: Completion): boolean =>
      one.logprobs.every(
        ({ logprob }, at) => Math.abs(logprob - (other.logprobs[at]?.logprob ?? Infinity)) < model.tolerance,
      );

    test('a prompt that shares only its start with an earlier one gives the same result as alone', async () => {
      const prompt = `${START}He called it`;
      const long = Array.from({ length: model.longWords }, (_, i) => WORDS[i % WORDS.length]).join(' ');
      await generate(START + long, 'shared');
      const [cached, alone] = [await generate(prompt, 'shared'), await generate(prompt, null)];
      const other = await generate(WORDS.join(' '), null);
      assert(!isSame(other, alone), 'another prompt has other probabilities');
      assert(isSame(cached, alone), JSON.stringify([cached.logprobs, alone.logprobs]));
    });

    test('a prompt that continues a completion gives the same result as alone', async () => {
      const first = await generate(START, 'conversation');
      const prompt = `${START}${first.texts[0]} and then`;
      const [cached, alone] = [await generate(prompt, 'conversation'), await generate(prompt, null)];
      assert(cached.usage.cachedTokens > 10, `${cached.usage.cachedTokens} tokens were cached`);
      assert(isSame(cached, alone), JSON.stringify([cached.logprobs, alone.logprobs]));
    });

    test('concurrent prompts with a common start give the same results as alone', async () => {
      const prompts = ['He', 'She', 'It'].map((end) => `${START}${START}${end}`);
      const together = await Promise.all(prompts.map((prompt) => generate(prompt, 'together')));
      for (const [i, prompt] of prompts.entries()) {
        const alone = await generate(prompt, null);
        assert(isSame(together[i] as Completion, alone), prompt);
      }
    });

    if (!model.chats) return;

    test('a conversation whose last message or answer changes is computed from there', async () => {
      const system: Message = { role: 'system', content: START.repeat(4) };
      const ask = async (scope: string | null, ...contents: string[]) => {
        const roles = ['user', 'assistant'] as const;
        const messages = contents.map((content, at) => messageOf(roles[at % 2] ?? 'user', content));
        const fields = { messages: [system, ...messages], cacheScope: scope, maxTokens: 3, logprobs: 0 };
        return await complete(engine, chat('', { ...fields, sampling: always(model.token) }));
      };
      const question = 'What did he call his cat, and why? '.repeat(3);
      await ask('edited', question);
      for (const contents of [
        ['Where did he live?'],
        ['Where did he live?', 'By the sea.', 'And when?'],
        ['Where did he live?', 'In town.', 'And when?'],
      ]) {
        const [edited, alone] = [await ask('edited', ...contents), await ask(null, ...contents)];
        // Apart from the last messages.
        const least = edited.usage.promptTokens - contents.join('').length - 60;
        assert.ok(edited.usage.cachedTokens >= least, `${edited.usage.cachedTokens} of at least ${least}`);
        assert(isSame(edited, alone), JSON.stringify([edited.logprobs, alone.logprobs]));
      }
    });
  });

function messageOf(role: 'user' | 'assistant', content: string): Message {
  return role === 'user' ? { role, content } : { role, content, reasoning: null, toolCalls: [] };
}
