import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { LlamaEngine } from '../../src/engine/llama/engine.ts';
import { GrammarCache } from '../../src/engine/llama/output/response-grammar.ts';
import { loadModel } from '../../src/engine/llama/load-model.ts';
import { HERMES } from '../../src/engine/llama/tool-calls/json-formats.ts';
import type { ChatRequest, Tool } from '../../src/core/generation.ts';
import { SILENT } from '../../src/support/log.ts';
import { assertRefused, chat, complete, file, SKIP } from './embedded-engine.ts';
import { callsOf } from './lamp-tools.ts';

/** The maximum number of tools, with few tokens each. */
const TOOLS = Array.from({ length: 128 }, (_, i): Tool => ({
  name: `f${i}`,
  description: null,
  parameters: { const: {} },
  strict: true,
}));
/** Few enough that the prompt, which contains all of them, is soon processed, but too many for 256 tokens. */
const FEWER = TOOLS.slice(0, 10);
const REQUEST: Partial<ChatRequest> = {
  tools: FEWER,
  toolChoice: { type: 'required' },
  parallelToolCalls: false,
  cacheScope: 'test',
  maxTokens: 60,
};

const CONTEXT = 512;

const OPTIONS = { file: file ?? '', slots: 1, threads: 1, gpuLayers: 'auto' } as const;
const LOADING = { onProgress() {}, log: SILENT };

function load(contextTokens: number): Promise<LlamaEngine> {
  return LlamaEngine.load({ ...OPTIONS, contextTokens }, LOADING);
}

describe('the embedded engine with many tools', SKIP, () => {
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

  test('calls one of 10 tools, or the named one', async () => {
    const name = await calledTool();
    assert.ok(
      FEWER.some((tool) => tool.name === name),
      name,
    );
    // Each tool is in the prompt.
    assert.ok(promptTokens > FEWER.length * 20, `${promptTokens}`);
    // The prompt is cached.
    assert.equal(await calledTool({ toolChoice: { type: 'function', name: 'f9' } }), 'f9');
  });

  test('llama.cpp accepts the grammar of 128 tools, and it allows a call of the last one', async () => {
    const { model, context, vocabulary } = await loadModel({ ...OPTIONS, contextTokens: 512 }, LOADING);
    try {
      const constraint = { format: HERMES, tools: TOOLS, parallel: false };
      const grammar = model.copyGrammar(
        new GrammarCache(model, vocabulary).calls(constraint, { type: 'text' }),
      );
      const reply = '<tool_call>\n{"name": "f127", "arguments": {}}\n</tool_call>';
      for (const token of model.tokenize(reply, false)) assert.ok(model.advance(grammar, token));
      assert.ok(!model.advance(grammar, model.tokenize('more', false)[0] ?? 0));
    } finally {
      await context.dispose();
      await model.dispose();
    }
  });

  test('refuses tools that do not fit in the context, and reports both lengths', async () => {
    await using small = await load(256);
    const request = chat('Call a tool.', REQUEST);
    const { message } = await assertRefused(small, request, 'context_length_exceeded', 'messages');
    assert.equal(
      message,
      `This model's maximum context length is 256 tokens; the messages and tools have ${promptTokens}, which leaves no room for a completion. The model itself supports more: the operator of this service can raise its \`engine.contextTokens\`.`,
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
