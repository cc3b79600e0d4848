import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ChatRequest, Tool } from '../../src/core/generation.ts';
import { ChoiceOutput, type ChoicePart } from '../../src/engine/llama/output/choice-output.ts';
import { LlamaEngine } from '../../src/engine/llama/engine.ts';
import { GrammarCache } from '../../src/engine/llama/output/response-grammar.ts';
import { Job } from '../../src/engine/llama/decode/job.ts';
import { loadModel, type LoadedModel } from '../../src/engine/llama/load-model.ts';
import { OutputConstraint } from '../../src/engine/llama/output/output-constraint.ts';
import { HERMES } from '../../src/engine/llama/tool-calls/json-formats.ts';
import { SILENT } from '../../src/support/log.ts';
import { chat, complete, file, SKIP } from './embedded-engine.ts';
import { assertReplayed, chatChoice } from './replay.ts';
import { assertCall, callsOf, COLOR, OFF } from './lamp-tools.ts';

describe('tool calls of the embedded engine', SKIP, () => {
  let engine: LlamaEngine;
  let loaded: LoadedModel;

  before(async () => {
    // The slots have room for a prompt with tools.
    engine = await LlamaEngine.load(
      { file: file ?? '', slots: 2, contextTokens: 1024, threads: 1, gpuLayers: 'auto' },
      { onProgress() {}, log: SILENT },
    );
    loaded = await loadModel(
      { file: file ?? '', slots: 1, contextTokens: 512, threads: 1, gpuLayers: 'auto' },
      { onProgress() {}, log: SILENT },
    );
  });

  after(async () => {
    await engine[Symbol.asyncDispose]();
    await loaded.context.dispose();
    await loaded.model.dispose();
  });

  /** The output of a chat that may call `COLOR` once. The grammar of calls allows the tools in `callable`. */
  function freeAnswer(callable: readonly Tool[] = [COLOR]): {
    output: ChoiceOutput;
    guide: OutputConstraint;
  } {
    const { model, vocabulary } = loaded;
    const grammars = new GrammarCache(model, vocabulary);
    const constraint = { format: HERMES, tools: callable, parallel: false };
    const call = (before: string) => grammars.call(constraint, before);
    const guide = new OutputConstraint(model, vocabulary, { first: null, answer: null, call }, false);
    const output = new ChoiceOutput({
      vocabulary,
      format: HERMES,
      reasoning: null,
      insideReasoning: false,
      tools: [COLOR],
      acceptCall: (text) => guide.acceptCall(text),
      stop: [],
      oneCall: true,
    });
    return { output, guide };
  }

  const tools = [COLOR, OFF];
  /** Most requests have the same prompt, which only the first one computes. */
  const ask = (changed: Partial<ChatRequest>) =>
    complete(engine, chat('Make the lamp red.', { tools, cacheScope: 'test', maxTokens: 120, ...changed }));

  test('required calls name an offered tool and satisfy its schema, in each choice', async () => {
    const { events, reasons, texts, usage } = await ask({
      toolChoice: { type: 'required' },
      parallelToolCalls: false,
      choices: 2,
      sampling: { ...chat('').sampling, temperature: 1, seed: 3 },
    });
    assert.deepEqual(texts, []);
    for (const choice of [0, 1]) {
      const calls = callsOf(events, choice);
      assert.equal(calls.length, 1);
      for (const call of calls) assertCall(call, tools);
      assert.equal(reasons[choice], 'tool_calls');
    }
    assert.ok(usage.completionTokens > 10);
  });

  test('only the named function, or one of the allowed subset, is called', async () => {
    for (const toolChoice of [
      { type: 'function', name: 'off' },
      { type: 'allowed', mode: 'required', names: ['off'] },
    ] as const) {
      const { events, reasons } = await ask({ toolChoice, parallelToolCalls: false });
      const [call, ...others] = callsOf(events);
      assert.ok(call);
      assertCall(call, [OFF]);
      assert.deepEqual(others, []);
      assert.deepEqual(reasons, ['tool_calls']);
    }
  });

  test('a model whose template has no tools makes one call per response', async () => {
    const { events, reasons } = await ask({ toolChoice: { type: 'required' } });
    const [call, ...others] = callsOf(events);
    assert.ok(call);
    assertCall(call, tools);
    assert.deepEqual(others, []);
    assert.deepEqual(reasons, ['tool_calls']);
  });

  test('a call cut off by max_tokens is returned in part, with the finish reason length', async () => {
    const whole = await ask({
      toolChoice: { type: 'function', name: 'set_color' },
      parallelToolCalls: false,
    });
    const { completionTokens } = whole.usage;
    const cut = await ask({
      toolChoice: { type: 'function', name: 'set_color' },
      parallelToolCalls: false,
      maxTokens: Math.floor(completionTokens * 0.7),
    });
    assert.deepEqual(cut.reasons, ['length']);
    const [call] = callsOf(cut.events);
    assert.equal(call?.name, 'set_color');
    assert.ok(callsOf(whole.events)[0]?.arguments.startsWith(call.arguments));
  });

  test('stop sequences do not apply inside calls', async () => {
    const { events, reasons } = await ask({
      toolChoice: { type: 'function', name: 'set_color' },
      parallelToolCalls: false,
      stop: ['"color"', 'tool_call', '{'],
    });
    const [call] = callsOf(events);
    assert.ok(call);
    assertCall(call, tools);
    assert.deepEqual(reasons, ['tool_calls']);
  });

  test('log probabilities are those of the text, and none belong to an opening that becomes a call', async () => {
    const { model, vocabulary } = loaded;
    const { output, guide } = freeAnswer();
    const job = new Job({ cacheScope: null, logprobs: 0, choices: 1, tokenIds: false }, [new Uint32Array(1)]);
    const choice = chatChoice(job, {
      output,
      constraint: guide,
      grammarField: 'tools',
      createSampler: () => model.sampler({ temperature: 0, seed: 1 }),
    });
    const reply = 'Is 1 <tool> 2? Sure.<tool_call>{"name": "set_color", "arguments": {}}</tool_call>';
    for (const token of model.tokenize(reply, false)) {
      const entry = { token: vocabulary.tokenText(token), logprob: -1, bytes: null, top: [] };
      choice.accept(token, entry, vocabulary);
    }
    choice.dispose();
    let text = '';
    let tokens = '';
    for await (const event of job.events) {
      if (event.type !== 'token') continue;
      text += event.text;
      for (const { token } of event.logprobs ?? []) tokens += token;
    }
    assert.equal(text, 'Is 1 <tool> 2? Sure.');
    // The last token can end in the start of the opening.
    assert.ok(tokens === text || tokens === `${text}<`, tokens);
  });

  test('text before a call, and the call, continue after any token', async () => {
    const { model, vocabulary } = loaded;
    const begin = () => {
      const job = new Job({ cacheScope: null, logprobs: null, choices: 1, tokenIds: true }, [
        new Uint32Array(1),
      ]);
      const { output, guide } = freeAnswer();
      const choice = chatChoice(job, {
        output,
        constraint: guide,
        grammarField: 'tools',
        createSampler: () => model.sampler({ temperature: 0, seed: 1 }, guide.initial()),
      });
      return { job, choice };
    };
    const reply =
      'Is 1 <tool> 2? Sure.<tool_call>\n{"name": "set_color", "arguments": {"color": "red", "level": 2}}\n</tool_call>';
    const output = await assertReplayed(begin, [...model.tokenize(reply, false)], vocabulary);
    assert.equal(output.text, 'Is 1 <tool> 2? Sure.');
    assert.deepEqual(output.calls, ['set_color{"color": "red", "level": 2}']);
  });

  test('without tools, or with `tool_choice` none, there are no calls', async () => {
    for (const changed of [{ tools: [] }, { toolChoice: { type: 'none' } }] as const) {
      const { events } = await ask({ ...changed, maxTokens: 8 });
      assert.deepEqual(callsOf(events), []);
    }
  });

  test('an opening that no call follows does not constrain the text', () => {
    const { model } = loaded;
    const { output, guide } = freeAnswer();
    const sampler = model.sampler({ temperature: 0, seed: 1 });
    let text = '';
    // ">," is one token.
    for (const token of model.tokenize('Write <tool_call>, then', false)) {
      guide.push(token);
      for (const part of output.push(token, null)) if (part.type === 'text') text += part.text;
      guide.update(output, sampler);
      assert.equal(guide.active, false);
    }
    for (const part of output.flush()) if (part.type === 'text') text += part.text;
    assert.equal(text, 'Write <tool_call>, then');
    sampler.dispose();
  });

  test('a call that its grammar does not allow is text', () => {
    const { model } = loaded;
    const { output, guide } = freeAnswer([OFF]);
    const sampler = model.sampler({ temperature: 0, seed: 1 });
    const reply = '{"name": "set_color", "arguments": {"color": "red"}}';
    let text = '';
    const receive = (parts: readonly ChoicePart[]): void => {
      for (const part of parts) {
        assert.equal(part.type, 'text');
        if (part.type === 'text') text += part.text;
      }
    };
    for (const token of model.tokenize(reply, false)) {
      guide.push(token);
      receive(output.push(token, null));
      guide.update(output, sampler);
      assert.equal(guide.active, false);
    }
    receive(output.flush());
    assert.equal(text, reply);
    assert.equal(output.finishReason, null);
    sampler.dispose();
  });

  // The second has a token that begins before the opening: ".<".
  const openings = [
    '<tool_call>{"name": "set_color",',
    'Sure.<tool_call>\n{\n  "name": "set_color"',
    '```json\n{\n  "name": "set_color", "arguments":',
    '{{"name": "set_color", "arguments":',
  ];
  for (const opening of openings) {
    test(`after ${JSON.stringify(opening)}, the rest of the call follows the grammar`, async () => {
      const { model, context, vocabulary } = loaded;
      const { output, guide } = freeAnswer();
      const sampler = model.sampler({ temperature: 1, seed: 5 });
      let text = '';
      let reply = '';
      const receive = (token: number): void => {
        reply += vocabulary.textWithControls(Uint32Array.of(token));
        guide.push(token);
        for (const part of output.push(token, null)) if (part.type === 'arguments') text += part.text;
        guide.update(output, sampler);
      };
      const begun = model.tokenize(opening, false);
      for (const token of begun) receive(token);
      assert.ok(guide.active);
      let next = begun;
      let position = 0;
      while (output.finishReason === null) {
        assert.ok(position < 300, reply);
        context.begin(next.length);
        const index = context.add(0, position, next, 1);
        await context.decode();
        position += next.length;
        next = Uint32Array.of(await context.sample(index, sampler));
        receive(next[0] as number);
      }
      context.clear(0);
      sampler.dispose();
      assert.equal(guide.active, output.state === 'call');
      assertCall({ id: '', name: 'set_color', arguments: text }, [COLOR]);
    });
  }
});
