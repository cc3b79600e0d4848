import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type LlamaOptions, loadModel } from '../../src/engine/llama/load-model.ts';
import { AGENT_TOKENS, type KvCache, planMemory } from '../../src/models/memory.ts';
import { PromptTokenizer } from '../../src/engine/llama/prompt/prompt-tokenizer.ts';
import type { CompletionRequest } from '../../src/core/generation.ts';
import { SILENT } from '../../src/support/log.ts';
import { read as readMessages } from '../protocols/anthropic/samples.ts';
import { temporaryFolder } from '../harness.ts';
import { read as readResponses } from '../protocols/responses/samples.ts';
import { CACHE_MODELS } from './cache-models.ts';

const file = process.env.SLUICE_TEST_MODEL;
const skip =
  process.platform === 'linux' ? file === undefined && 'SLUICE_TEST_MODEL is not set' : 'measured on Linux';

function recording(protocol: 'anthropic' | 'responses', name: string): Record<string, unknown> {
  const path = join(import.meta.dirname, '..', 'protocols', protocol, 'recordings', `${name}.json`);
  return JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
}

test(
  'with the default settings, the cache and buffers of the default model take less than 200 MB',
  { skip },
  async () => {
    const options = { file: file!, slots: null, contextTokens: null, threads: null, gpuLayers: 0 };
    const { model, context } = await loadModel(options, { onProgress() {}, log: SILENT });
    const { allocatedBytes } = context;
    await context.dispose();
    await model.dispose();
    assert(allocatedBytes < 200e6, `${allocatedBytes} bytes`);
  },
);

test('a KV cache in q8_0 takes the memory that the plan counts', { skip }, async () => {
  const measure = async (kvCache: KvCache): Promise<{ allocated: number; planned: number }> => {
    const options = { file: file!, slots: 16, contextTokens: 1024, threads: 1, kvCache, gpuLayers: 0 };
    const { model, context, info } = await loadModel(options, { onProgress() {}, log: SILENT });
    const allocated = context.allocatedBytes;
    await context.dispose();
    await model.dispose();
    return { allocated, planned: planMemory(info, options, { availableBytes: 0, gpu: false }).kvBytes };
  };
  const [full, quantized] = [await measure('f16'), await measure('q8_0')];
  const [planned, saved] = [full.planned - quantized.planned, full.allocated - quantized.allocated];
  // Its compute buffers are slightly larger.
  assert(saved <= planned && saved > 0.95 * planned, `planned ${planned}, saved ${saved}`);
});

test('the first prompts of Claude Code and Codex fit into a slot for agents', { skip }, async () => {
  const options = { file: file!, slots: 1, contextTokens: 128, threads: 1, gpuLayers: 0 };
  const loaded = await loadModel(options, { onProgress() {}, log: SILENT });
  const prompts = new PromptTokenizer(loaded, AGENT_TOKENS, SILENT);
  const count = async (request: CompletionRequest): Promise<number> =>
    (await prompts.tokenize(request, new AbortController().signal)).prompts[0]?.length ?? 0;
  const counts = [
    await count(readMessages(recording('anthropic', 'claude-code-1')).request),
    await count(readMessages(recording('anthropic', 'claude-code-6')).request),
    await count(readResponses(recording('responses', 'codex-1')).request),
  ];
  await loaded.context.dispose();
  await loaded.model.dispose();
  // The template of the default model describes the tools in the system message. The second request has more tools.
  const [smallest, largest] = [Math.min(...counts), Math.max(...counts)];
  assert(smallest > 7000 && largest > 16_000 && largest < 0.6 * AGENT_TOKENS, counts.join(', '));
});

for (const model of CACHE_MODELS)
  test(`the plan counts the memory that a slot of ${model.name} takes`, model.options, async () => {
    await using folder = await temporaryFolder();
    const file = model.file(folder.path);
    /** With both numbers of slots, a step has the same maximum of tokens, so its buffers have the same size. */
    const measure = async (slots: number): Promise<{ allocated: number; planned: number }> => {
      const options: LlamaOptions = { file, slots, contextTokens: 512, threads: 1, gpuLayers: 0 };
      const { model: native, context, info } = await loadModel(options, { onProgress() {}, log: SILENT });
      const plan = planMemory(info, options, { availableBytes: 0, gpu: false });
      const allocated = context.allocatedBytes;
      await context.dispose();
      await native.dispose();
      return { allocated, planned: plan.kvBytes + plan.computeBytes };
    };
    const [few, many] = [await measure(16), await measure(32)];
    const [planned, allocated] = [many.planned - few.planned, many.allocated - few.allocated];
    assert(planned > 0 && planned <= allocated, `planned ${planned}, allocated ${allocated}`);
    assert(allocated < planned * model.maxOverhead, `planned ${planned}, allocated ${allocated}`);
  });
