import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Environment, Interpreter, Template } from '@huggingface/jinja';
import * as fc from '../../../support/fast-check.ts';
import { detectFormat } from '../../../../src/engine/llama/tool-calls/formats.ts';
import { HARMONY, LLAMA3 } from '../../../../src/engine/llama/tool-calls/json-formats.ts';
import { detectReasoning, reasoningOf } from '../../../../src/engine/llama/tool-calls/reasoning.ts';
import { parse, split, tool } from './parsing.ts';

const folder = process.env.SLUICE_TEST_TEMPLATES;

const NOT_RENDERED = '@huggingface/jinja cannot render the template with these tools';
const OMITTED = 'the template omits the calls of earlier turns';
const UNSUPPORTED = 'the format is not in the table, so the generic instruction applies';

/** Templates whose calls are not parsed from their own rendering, and why. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  'Apriel-1.6-15b-Thinker-fixed': NOT_RENDERED,
  'ByteDance-Seed-OSS': NOT_RENDERED,
  'CohereForAI-c4ai-command-r-plus-tool_use': NOT_RENDERED,
  'Kimi-K2-Instruct': NOT_RENDERED,
  'Kimi-K2-Thinking': NOT_RENDERED,
  'NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use': NOT_RENDERED,
  'NousResearch-Hermes-3-Llama-3.1-8B-tool_use': NOT_RENDERED,
  'fireworks-ai-llama-3-firefunction-v2': NOT_RENDERED,
  'meetkai-functionary-medium-v3.2': NOT_RENDERED,
  'openbmb-MiniCPM5-1B': NOT_RENDERED,
  'tencent-Hy3': NOT_RENDERED,
  'unsloth-Apriel-1.5': NOT_RENDERED,
  'HuggingFaceTB-SmolLM3-3B': OMITTED,
  'LFM2-8B-A1B': OMITTED,
  'LFM2.5-Instruct': OMITTED,
  'deepseek-ai-DeepSeek-R1-Distill-Llama-8B': OMITTED,
  'google-gemma-2-2b-it': OMITTED,
  'ibm-granite-granite-3.3-2B-Instruct': OMITTED,
  'llama-cpp-rwkv-world': OMITTED,
  'microsoft-Phi-3.5-mini-instruct': OMITTED,
  'LFM2.5-8B-A1B': 'the template renders strings without escaping quotes and backslashes',
  'Apertus-8B-Instruct': UNSUPPORTED,
  'GigaChat3-10B-A1.8B': UNSUPPORTED,
  'GigaChat3.1-10B-A1.8B': UNSUPPORTED,
  'Kimi-K3': UNSUPPORTED,
  'MiniMax-M1': UNSUPPORTED,
  'MiniMax-M3': UNSUPPORTED,
  'meetkai-functionary-medium-v3.1': UNSUPPORTED,
  'muse-glimmer': UNSUPPORTED,
  'upstage-Solar-Open-100B': UNSUPPORTED,
};

/** Formats whose templates render one call per turn. */
const ONE_CALL = [HARMONY, LLAMA3];

const SEARCH = tool('search_files', {
  query: { type: 'string', description: 'A value' },
  code: { type: 'string', description: 'A value' },
  limit: { type: 'integer', description: 'A value' },
  ratio: { type: 'number', description: 'A value' },
  exact: { type: 'boolean', description: 'A value' },
  paths: { type: 'array', description: 'A value', items: { type: 'string' } },
  options: { type: 'object', description: 'A value', additionalProperties: { type: 'string' } },
});
const NOW = tool('now', { zone: { type: 'string', description: 'A value' } });

const CALLS = [
  {
    name: 'search_files',
    arguments: {
      query:
        'a "quoted" \\ back\\nslash\n\nand </tool_call> <tool_call> {"name": 1} 😀 漢字 \u2028 [/x] <|x|>',
      code: 'if (a < b) {\n  return `x`;\n}\n',
      limit: -12,
      ratio: 0.5,
      exact: true,
      paths: ['a/b', 'c "d"', 3, []],
      options: { deep: { er: [{ key: 'value }' }] }, empty: {}, 'key with space': false },
    },
  },
  { name: 'now', arguments: {} },
];

describe(
  'a chat template',
  { skip: folder === undefined && 'the chat templates were not downloaded' },
  () => {
    for (const file of folder === undefined ? [] : readdirSync(folder).sort()) {
      const name = file.replace('.jinja', '');
      const reason = EXCEPTIONS[name];
      const result = reason === undefined ? 'parsed' : `not parsed, because ${reason}`;
      it(`${name}: calls in the rendered turn are ${result}`, () => {
        const source = readFileSync(join(folder ?? '', file), 'utf8');
        if (reason === undefined) return checkRoundTrip(source);
        assert.throws(() => checkRoundTrip(source), `${name} works; remove it from the exceptions`);
      });
    }
  },
);

function checkRoundTrip(source: string): void {
  const format = detectFormat(source);
  const reasoning = detectReasoning(source);
  for (const calls of ONE_CALL.includes(format)
    ? [[CALLS[0]], [CALLS[1]]]
    : [[CALLS[0]], [CALLS[1]], CALLS]) {
    const { output, prompt } = assistantTurn(source, calls as typeof CALLS);
    const insideReasoning = reasoning !== null && reasoningOf(reasoning, prompt) === 'open';
    const options = { format, reasoning, insideReasoning, tools: [SEARCH, NOW] };
    const check = (pieces: readonly string[]): void => {
      const parsed = parse(pieces, options);
      assert.deepEqual(
        parsed.calls.map((call) => ({ ...call, arguments: JSON.parse(call.arguments) as unknown })),
        calls,
      );
      assert.equal(parsed.text, '');
      assert.equal(parsed.reasoning, '');
    };
    check([output]);
    check(output.split(''));
    const lengths = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(lengths, (each) => check(split(output, each))),
      { numRuns: 20 },
    );
  }
}

/** Tokens that end the output of a model. They are not part of its text. */
const END_OF_TURN =
  /(<eos>|<\|im_end\|>|<\|eot_id\|>|<\|eom_id\|>|<\|end_of_text\|>|<\|call\|>|<turn\|>|<\|tool_response>|<｜end▁of▁sentence｜>|<｜Assistant｜>|<\/assistant>|<\|role_end\|>|<sep>|<SPECIAL_12>|\[e~\[|<\|END_OF_TURN_TOKEN\|>.*|\s)+$/;

/** Renders the assistant's turn with these calls. Returns its text after the prompt, and the prompt. */
function assistantTurn(source: string, calls: readonly object[]): { output: string; prompt: string } {
  const template = new Template(source);
  const user = { role: 'user', content: 'Hello' };
  const toolCalls = calls.map((call, index) => ({
    id: `call0000${index}`,
    type: 'function',
    function: call,
  }));
  const assistant = { role: 'assistant', content: '', tool_calls: toolCalls };
  const before = render(template, [user], false);
  const generation = render(template, [user], true);
  const after = render(template, [user, assistant], false);
  const reasoning = detectReasoning(source);
  // The prompt may begin or omit the reasoning, unlike the rendering of an earlier turn.
  const prompts = [generation, generation.trimEnd()];
  for (const mark of [reasoning?.close, reasoning?.open]) {
    const last = prompts.at(-1)?.trimEnd() ?? '';
    if (mark !== undefined && last.endsWith(mark))
      prompts.push(last.slice(0, -mark.length), last.slice(0, -mark.length).trimEnd());
  }
  const prompt = [...prompts, before].find((each) => after.startsWith(each));
  assert.ok(prompt !== undefined, 'the turn does not begin with the prompt');
  return { output: after.slice(prompt.length).replace(END_OF_TURN, ''), prompt };
}

function render(template: Template, messages: readonly object[], addGenerationPrompt: boolean): string {
  const environment = new Environment();
  const tools = [SEARCH, NOW].map(({ name, parameters }) => ({
    type: 'function',
    function: { name, description: `Calls ${name}.`, parameters: { required: [], ...parameters } },
  }));
  const values = {
    true: true,
    false: false,
    none: null,
    True: true,
    False: false,
    None: null,
    bos_token: '<bos>',
    eos_token: '<eos>',
    add_generation_prompt: addGenerationPrompt,
    messages,
    tools,
    documents: null,
    strftime_now: () => '2026-07-01',
    range: (first: number, end?: number) =>
      Array.from(
        { length: (end ?? first) - (end === undefined ? 0 : first) },
        (_, at) => at + (end === undefined ? 0 : first),
      ),
    raise_exception: (message: string) => {
      throw new Error(message);
    },
  };
  for (const [name, value] of Object.entries(values)) environment.set(name, value);
  return new Interpreter(environment).run(template.parsed).value as string;
}
