import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { LlamaEngine } from '../../src/engine/llama/engine.ts';
import type { ChatRequest } from '../../src/core/generation.ts';
import { SILENT } from '../../src/support/log.ts';
import { temporaryFolder } from '../harness.ts';
import { chat, complete, copyModel, ENDLESS, SKIP } from './embedded-engine.ts';

/** Begins the reasoning of every answer. */
const TEMPLATE = `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}{% if enable_thinking is not defined or enable_thinking %}{{ '<think>' }}{% else %}{{ '<think></think>' }}{% endif %}`;

describe('the budget of the reasoning', SKIP, () => {
  let engine: LlamaEngine;
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;

  before(async () => {
    folder = await temporaryFolder();
    const path = join(folder.path, 'model.gguf');
    await copyModel(path, TEMPLATE);
    engine = await LlamaEngine.load(
      { file: path, slots: 2, contextTokens: 4096, threads: 1, gpuLayers: 'auto' },
      { onProgress() {}, log: SILENT },
    );
  });

  after(async () => {
    await engine[Symbol.asyncDispose]();
    await folder[Symbol.asyncDispose]();
  });

  const generate = (fields: Partial<ChatRequest>) =>
    complete(engine, chat('Count.', { sampling: ENDLESS, ...fields }));

  test('ends it after that many tokens of each choice, and the answer follows', async () => {
    const { usage, texts } = await generate({ reasoningBudget: 10, maxTokens: 40, choices: 2 });
    // The text that ends the reasoning is several tokens of this model.
    assert.ok(
      (usage.reasoningTokens ?? 0) > 20 && (usage.reasoningTokens ?? 0) <= 30,
      `${usage.reasoningTokens}`,
    );
    assert.equal(usage.completionTokens, 80);
    for (const text of texts) assert.ok(text.length > 20, text);
  });

  test('ends it before the first token if it is 0', async () => {
    const { usage, texts } = await generate({ reasoningBudget: 0, maxTokens: 20 });
    assert.ok((usage.reasoningTokens ?? 0) <= 5, `${usage.reasoningTokens}`);
    assert.ok((texts[0]?.length ?? 0) > 20);
  });

  test('leaves an answer in a format as it is', async () => {
    const { texts } = await generate({
      reasoningBudget: 4,
      maxTokens: 60,
      responseFormat: { type: 'json_schema', name: 'a', schema: { const: 'red' }, strict: true },
    });
    assert.equal(texts[0], '"red"');
  });
});
