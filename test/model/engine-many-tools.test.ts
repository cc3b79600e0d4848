import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { LlamaEngine } from '../../src/engine/llama/engine.ts';
import type { ChatRequest, Tool } from '../../src/generation.ts';
import { SILENT } from '../../src/log.ts';
import { assertRefused, chat, complete, file, SKIP } from './embedded-engine.ts';
import { callsOf } from './lamp-tools.ts';

/** The maximum number of tools, with few tokens each. */
const TOOLS = Array.from({ length: 128 }, (_, i): Tool => ({
  name: `f${i}`,
  description: null,
  parameters: { const: {} },
  strict: true,
}));
const REQUEST: Partial<ChatRequest> = {
  tools: TOOLS,
  toolChoice: { type: 'required' },
  parallelToolCalls: false,
  cacheScope: 'test',
  maxTokens: 60,
};

const CONTEXT = 3328;

function load(contextTokens: number): Promise<LlamaEngine> {
  return LlamaEngine.load(
    { file: file ?? '', slots: 1, contextTokens, threads: 1, gpuLayers: 'auto' },
    { onProgress() {}, log: SILENT },
  );
}

describe('the embedded engine with 128 tools', SKIP, () => {
  let engine: LlamaEngine;
  /** Length of the prompt of `REQUEST`. */
  let promptTokens = 0;

  before(async () => {
    engine = await load(CONTEXT);
  });

  after(() => engine[Symbol.asyncDispose]());

  /** Asserts that the response is one valid call. Returns its name. */
  async function calledTool(changed: Partial<ChatRequest> = {}): Promise<string> {
    const { events, reasons, usage } = await complete(
      engine,
      chat('Call a tool.', { ...REQUEST, ...changed }),
    );
    promptTokens = usage.promptTokens;
    const [call, ...others] = callsOf(events);
    assert.ok(call);
    assert.deepEqual([others, reasons], [[], ['tool_calls']]);
    assert.deepEqual(JSON.parse(call.arguments), {});
    return call.name;
  }

  // The prompt has 3,000 tokens, which take minutes on a busy machine.
  test('calls one of them, or the named one', { timeout: 900_000 }, async () => {
    const name = await calledTool();
    assert.ok(
      TOOLS.some((tool) => tool.name === name),
      name,
    );
    // Each tool is in the prompt.
    assert.ok(promptTokens > 128 * 10, `${promptTokens}`);
    // The prompt is cached.
    assert.equal(await calledTool({ toolChoice: { type: 'function', name: 'f127' } }), 'f127');
  });

  test('refuses them in a context that is too small, and reports both lengths', async () => {
    await using small = await load(512);
    const request = chat('Call a tool.', REQUEST);
    const { message } = await assertRefused(small, request, 'context_length_exceeded', 'messages');
    assert.equal(
      message,
      `This model's maximum context length is 512 tokens; the messages and tools have ${promptTokens}, which leaves no room for a completion.`,
    );
    // Longer texts are counted only until they are too long.
    const tools = TOOLS.map((tool) => ({ ...tool, description: 'Does nothing. '.repeat(40) }));
    const long = chat('Call a tool.', { ...REQUEST, tools });
    const { message: atLeast } = await assertRefused(engine, long, 'context_length_exceeded', 'messages');
    const [, maximum, counted] =
      /length is (\d+) tokens; the messages and tools have at least (\d+),/.exec(atLeast) ?? [];
    assert.ok(Number(maximum) === CONTEXT && Number(counted) >= CONTEXT, atLeast);
  });
});
