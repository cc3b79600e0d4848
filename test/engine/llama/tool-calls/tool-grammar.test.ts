import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../../support/fast-check.ts';
import type { JsonSchema, Tool } from '../../../../src/core/generation.ts';
import { HARMONY, HERMES } from '../../../../src/engine/llama/tool-calls/json-formats.ts';
import { QWEN_XML } from '../../../../src/engine/llama/tool-calls/tag-formats.ts';
import { HARMONY_CHANNELS } from '../../../../src/engine/llama/tool-calls/reasoning.ts';
import { toolGrammar } from '../../../../src/engine/llama/tool-calls/tool-grammar.ts';
import type { ToolFormat } from '../../../../src/engine/llama/tool-calls/tool-format.ts';
import { Gbnf } from '../gbnf.ts';
import { VOCABULARY } from '../tokens.ts';
import { FORMATS } from './formats.ts';
import { createParser, join, parse, split, tool } from './parsing.ts';

const PROPERTIES = {
  city: { type: 'string' },
  days: { type: 'integer' },
  where: { type: 'object' },
  any: {},
};
const WEATHER = tool('get_weather', PROPERTIES);
const STRICT: Tool = {
  name: 'get-time',
  description: null,
  strict: true,
  parameters: {
    type: 'object',
    properties: {
      zone: { enum: ['UTC', 'local "time"'] },
      precise: { type: 'boolean' },
      digits: { enum: [1, 2] },
    },
    required: ['precise'],
    additionalProperties: false,
  },
};
const NOW = tool('now');
const TOOLS = [WEATHER, STRICT, NOW];

function grammarOf(format: ToolFormat, target: 'call' | 'output', parallel = true): Gbnf {
  const path = (): string => 'tools[0].function.parameters';
  return new Gbnf(toolGrammar({ format, tools: TOOLS, parallel, target, tokens: VOCABULARY, path }));
}

/** Checks the arguments of the strict tool. */
function checkStrict(values: { zone?: unknown; precise?: unknown; digits?: unknown }, text: string): void {
  assert.equal(typeof values.precise, 'boolean', text);
  assert.ok([undefined, 'UTC', 'local "time"'].includes(values.zone as string), text);
  assert.ok([undefined, 1, 2].includes(values.digits as number), text);
}

function parserOptions(format: ToolFormat) {
  return { format, tools: TOOLS, reasoning: format === HARMONY ? HARMONY_CHANNELS : null };
}

for (const format of FORMATS) {
  describe(`the grammar of ${format.name}`, () => {
    const random = fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), {
      minLength: 20,
      maxLength: 400,
    });

    it('produces only complete calls, whose names are offered and whose arguments are objects', () => {
      const grammars = (['call', 'output'] as const).map((target) => grammarOf(format, target));
      fc.assert(
        fc.property(random, fc.constantFrom(...grammars), (numbers, grammar) => {
          let at = 0;
          const text = grammar.sample(() => numbers[at++ % numbers.length] ?? 0, 8);
          const output = parse(split(text, [7, 1, 3]), parserOptions(format));
          assert.ok(output.calls.length > 0, text);
          for (const call of output.calls) {
            assert.ok(
              TOOLS.some(({ name }) => name === call.name),
              text,
            );
            const values: unknown = JSON.parse(call.arguments);
            assert.ok(typeof values === 'object' && values !== null && !Array.isArray(values), text);
            if (call.name === STRICT.name) checkStrict(values, text);
          }
          assert.equal(output.text, '', text);
        }),
        { numRuns: 200 },
      );
    });

    it('ends after one call if parallel calls are off', () => {
      const grammar = grammarOf(format, 'output', false);
      fc.assert(
        fc.property(random, (numbers) => {
          let at = 0;
          const text = grammar.sample(() => numbers[at++ % numbers.length] ?? 0, 8);
          assert.equal(parse([text], parserOptions(format)).calls.length, 1, text);
        }),
        { numRuns: 50 },
      );
    });

    it('produces calls that begin with the text that the parser reports when a call begins', () => {
      const grammar = grammarOf(format, 'call', false);
      fc.assert(
        fc.property(random, (numbers) => {
          let at = 0;
          const text = grammar.sample(() => numbers[at++ % numbers.length] ?? 0, 8);
          const begun: string[] = [];
          const acceptCall = (start: string): boolean => begun.push(start) > 0;
          const parser = createParser({ ...parserOptions(format), acceptCall });
          const parts = Array.from(text, (character) => parser.push(character)).flat();
          parts.push(...parser.flush());
          assert.equal(begun.length, 1);
          assert.ok(text.startsWith(begun[0] ?? ' '), text);
          assert.equal(parser.completedCalls, 1, text);
          assert.equal(parser.state, 'text');
          assert.equal(join(parts).calls.length, 1);
        }),
        { numRuns: 50 },
      );
    });
  });
}

describe('schemas of tools that are not strict', () => {
  const path = (): string => 'tools[0].function.parameters';
  const options = { format: HERMES, parallel: false, target: 'output', tokens: VOCABULARY, path } as const;
  const grammarOf = (...tools: Tool[]): string => toolGrammar({ ...options, tools });
  const free = tool('first');
  const withSchema = (properties: Readonly<Record<string, JsonSchema>>, strict = false): Tool =>
    tool('first', properties, strict);
  const withoutProperties = (grammar: string): boolean => !grammar.includes('days');

  it('are enforced like the schemas of strict tools', () => {
    const days: JsonSchema = { type: 'integer', minimum: 1, maximum: 7 };
    assert.equal(grammarOf(withSchema({ days })), grammarOf(withSchema({ days }, true)));
    assert.notEqual(grammarOf(withSchema({ days })), grammarOf(free));
  });

  it('let the model write optional arguments in any order, in all formats', () => {
    const properties = { alpha: { type: 'integer' }, mike: { type: 'integer' }, zulu: { type: 'integer' } };
    const used = withSchema(properties);
    const call = (format: ToolFormat): Gbnf =>
      new Gbnf(toolGrammar({ ...options, format, tools: [{ ...used, name: 'f' }] }));
    const json = (args: string): string => `<tool_call>\n{"name": "f", "arguments": ${args}}\n</tool_call>`;
    const xml = (args: string): string =>
      `<tool_call>\n<function=f>\n${args.replace(/(\w+)=(\d);/g, '<parameter=$1>\n$2\n</parameter>\n')}</function>\n</tool_call>`;
    const [hermes, qwen] = [call(HERMES), call(QWEN_XML)];
    for (const order of ['zulu=1;', 'zulu=1;alpha=2;', 'mike=1;zulu=2;alpha=3;', '']) {
      assert.ok(qwen.accepts(xml(order)), order);
      assert.ok(hermes.accepts(json(`{${order.replace(/(\w+)=(\d);/g, '"$1":$2,').slice(0, -1)}}`)), order);
    }
  });

  it('are ignored if an object has too many optional properties for any order', () => {
    const names = Array.from({ length: 8 }, (_, index) => `p${index}`);
    const properties = Object.fromEntries(names.map((name) => [name, { type: 'integer' } as const]));
    assert.ok(!grammarOf(withSchema(properties)).includes('p7'));
    assert.ok(!grammarOf(withSchema({ inner: { type: 'object', properties } })).includes('p7'));
    assert.ok(grammarOf(withSchema(properties, true)).includes('p7'));
  });

  it('are ignored if a keyword is not supported', () => {
    const days: JsonSchema = { type: 'integer', multipleOf: 3 };
    assert.ok(withoutProperties(grammarOf(withSchema({ days }))));
  });

  it('are ignored if they exceed the limits of strict schemas', () => {
    const days: JsonSchema = { type: 'string', pattern: `^${'(a|b)?'.repeat(400)}$` };
    const city: JsonSchema = { enum: ['Oslo'] };
    const strict = { ...withSchema({ city }, true), name: 'second' };
    const grammar = grammarOf(withSchema({ days }), strict);
    assert.ok(withoutProperties(grammar));
    assert.ok(grammar.includes('Oslo'));
    assert.throws(() => grammarOf(withSchema({ days }, true)), { name: 'ServiceError' });
  });
});
