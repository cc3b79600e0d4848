import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import * as fc from '../../../support/fast-check.ts';
import type { JsonSchema, Tool } from '../../../../src/core/generation.ts';
import { ServiceError } from '../../../../src/core/errors.ts';
import { HARMONY } from '../../../../src/engine/llama/tool-calls/json-formats.ts';
import { GEMMA } from '../../../../src/engine/llama/tool-calls/literal-formats.ts';
import { QWEN_XML } from '../../../../src/engine/llama/tool-calls/tag-formats.ts';
import { HARMONY_CHANNELS } from '../../../../src/engine/llama/tool-calls/reasoning.ts';
import { toolGrammar } from '../../../../src/engine/llama/tool-calls/tool-grammar.ts';
import type { ToolFormat } from '../../../../src/engine/llama/tool-calls/tool-format.ts';
import { Gbnf } from '../gbnf.ts';
import { VOCABULARY } from '../tokens.ts';
import { FORMATS } from './formats.ts';
import { parse, tool } from './parsing.ts';

const PATH = 'tools[0].function.parameters';

function grammarOf(format: ToolFormat, ...tools: Tool[]): string {
  const path = (): string => PATH;
  return toolGrammar({ format, tools, parallel: false, target: 'call', tokens: VOCABULARY, path });
}

function strictTool(properties: Record<string, unknown>, more: Record<string, unknown> = {}): Tool {
  const parameters = { type: 'object', properties, required: Object.keys(properties), ...more };
  return { name: 'f', description: null, strict: true, parameters };
}

function parserOptions(format: ToolFormat, used: Tool) {
  return { format, tools: [used], reasoning: format === HARMONY ? HARMONY_CHANNELS : null };
}

function argumentsOf(format: ToolFormat, used: Tool, text: string): unknown {
  const [call] = parse([text], parserOptions(format, used)).calls;
  return JSON.parse(call?.arguments ?? '');
}

function refusalOf(format: ToolFormat, used: Tool): ServiceError {
  try {
    grammarOf(format, used);
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
  throw new Error('the schema was accepted');
}

const stringSchemas = fc.oneof(
  fc.constantFrom('^xyz$', '^[a-c]{2,4}$', 'ab|^c+$', '^[^x]{1,3}$', '^\\d$', '<').map((pattern) => ({
    type: 'string',
    pattern,
  })),
  fc.constantFrom('date', 'time', 'date-time', 'uuid').map((format) => ({ type: 'string', format })),
  fc
    .tuple(fc.nat(3), fc.nat(3))
    .map(([min, more]) => ({ type: 'string', minLength: min, maxLength: min + more })),
  fc.constant({ type: 'string' }),
);
const listed = fc
  .array(fc.constantFrom<unknown>('5', 5, 'null', null, 'a', '</parameter>', '<|"|>', ' x ', true), {
    minLength: 1,
    maxLength: 4,
  })
  .map((values) => ({ enum: values }));
const otherSchemas = fc.constantFrom<Record<string, unknown>>(
  {},
  { type: 'null' },
  { type: 'integer' },
  { type: 'integer', minimum: 3, maximum: 7 },
  { type: 'boolean' },
  { type: 'array', items: { type: 'string', maxLength: 2 }, maxItems: 2 },
  { type: 'object', properties: { k: { type: 'string', pattern: '^z' } }, required: ['k'] },
  { type: ['string', 'null'] },
  { type: ['string', 'integer'], maxLength: 1 },
  { type: ['string', 'number'], minimum: 3 },
  { $ref: '#/$defs/code' },
);
const single = fc.oneof(stringSchemas, listed, otherSchemas);
const valueSchemas = fc.oneof(
  single,
  fc.array(single, { minLength: 2, maxLength: 3 }).map((anyOf) => ({ anyOf })),
);
const names = fc.oneof(
  { weight: 20, arbitrary: fc.constantFrom('a', 'b c', 'd', 'k[]') },
  { weight: 1, arbitrary: fc.constantFrom('x>y', '"q"', 'n:m') },
);
const tools = fc
  .tuple(
    fc.dictionary(names, valueSchemas, { minKeys: 1, maxKeys: 3 }),
    fc.array(
      fc.oneof(
        { weight: 20, arbitrary: fc.constantFrom('a', 'b c', 'd') },
        { weight: 1, arbitrary: fc.constant('z') },
      ),
      { maxLength: 2 },
    ),
  )
  .map(([properties, required]) =>
    strictTool(properties, {
      required: [...new Set(required)].filter((name) => name === 'z' || Object.hasOwn(properties, name)),
      $defs: { code: { type: 'string', pattern: '^[A-Z]$' } },
    }),
  );

const ajv = new Ajv2020({
  strict: false,
  formats: { uuid: true, date: true, time: true, 'date-time': true },
});

for (const format of FORMATS) {
  describe(`strict functions in ${format.name}`, () => {
    it('get arguments that satisfy the schema, or are refused with the path of a keyword', () => {
      const random = fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), {
        minLength: 50,
        maxLength: 300,
      });
      fc.assert(
        fc.property(tools, random, (used, numbers) => {
          let grammar: Gbnf;
          try {
            grammar = new Gbnf(grammarOf(format, used));
          } catch (error) {
            assert.ok(error instanceof ServiceError);
            assert.equal(error.status, 400);
            assert.ok(String(error.param).startsWith(PATH), String(error.param));
            // Refused schemas do not count as runs.
            return fc.pre(false);
          }
          let at = 0;
          const text = grammar.sample(() => numbers[at++ % numbers.length] ?? 0, 8);
          const values = argumentsOf(format, used, text);
          assert.ok(ajv.validate(used.parameters, values), `${text}: ${ajv.errorsText()}`);
        }),
        { numRuns: 60 },
      );
    });

    it('get strings that match their pattern, and values of the types that the schema allows', () => {
      const used = strictTool({
        code: { type: 'string', pattern: '^xyz$' },
        note: { type: ['string', 'null'] },
      });
      const grammar = new Gbnf(grammarOf(format, used));
      for (const seed of [0.1, 0.5, 0.9]) {
        const values = argumentsOf(
          format,
          used,
          grammar.sample(() => seed, 8),
        ) as Record<string, unknown>;
        assert.equal(values['code'], 'xyz');
        assert.ok(values['note'] === null || typeof values['note'] === 'string');
      }
    });
  });
}

describe('raw text', () => {
  const call = (value: string): string =>
    `<tool_call>\n<function=f>\n<parameter=a>\n${value}\n</parameter>\n</function>\n</tool_call>`;
  const valueOf = (schema: JsonSchema, value: string): unknown => {
    const used = strictTool({ a: schema });
    assert.ok(new Gbnf(grammarOf(QWEN_XML, used)).accepts(call(value)), value);
    return (argumentsOf(QWEN_XML, used, call(value)) as { a: unknown }).a;
  };

  it('is parsed as JSON if the schema allows the type of the value, and otherwise is a string', () => {
    assert.equal(valueOf({ type: 'string' }, '5'), '5');
    assert.equal(valueOf({ type: ['string', 'null'] }, '5'), '5');
    assert.equal(valueOf({ type: ['string', 'null'] }, 'null'), null);
    assert.equal(valueOf({ type: ['string', 'integer'] }, '2.5'), '2.5');
    assert.equal(valueOf({ anyOf: [{ type: 'string' }, { type: 'integer' }] }, '5'), 5);
    assert.equal(valueOf({ enum: ['5', null] }, '5'), '5');
  });

  it('can contain the end of a value in JSON strings', () => {
    const value = ['</parameter>', 'b\\"\n</parameter>'];
    assert.deepEqual(valueOf({ type: 'array', items: { type: 'string' } }, JSON.stringify(value)), value);
  });

  it('cannot contain the end of a value, with or without the line break before it', () => {
    const grammar = new Gbnf(grammarOf(QWEN_XML, strictTool({ a: { type: 'string' } })));
    assert.ok(grammar.accepts(call('a\n</b>\n')));
    assert.ok(!grammar.accepts(call('a</parameter>b')));
  });

  it('does not support every keyword; an unsupported one is refused with its path', () => {
    for (const [property, param] of [
      [{ type: ['string', 'integer'], minimum: 3 }, 'properties.a.minimum'],
      [{ anyOf: [{ type: 'string' }, { type: 'array', items: {} }] }, 'properties.a.anyOf[1].items'],
      [{ type: 'string', pattern: '<' }, 'properties.a.pattern'],
      [{ anyOf: [{ type: 'string' }, { enum: [1] }] }, 'properties.a.anyOf[1].enum'],
      [{ enum: ['5', 6] }, 'properties.a.enum'],
      [{ enum: ['</parameter>'] }, 'properties.a.enum'],
    ] as const) {
      const refusal = refusalOf(QWEN_XML, strictTool({ a: property }));
      assert.equal(refusal.status, 400);
      assert.equal(refusal.param, `${PATH}.${param}`);
      assert.match(refusal.message, /call format/);
    }
  });

  it('does not support keywords of the whole object or property names with special characters', () => {
    for (const [more, param] of [
      [{ required: ['z'] }, 'required'],
      [{ propertyNames: { enum: ['a'] } }, 'propertyNames'],
    ] as const) {
      for (const format of [QWEN_XML, GEMMA])
        assert.equal(refusalOf(format, strictTool({ a: {} }, more)).param, `${PATH}.${param}`);
    }
    assert.equal(refusalOf(QWEN_XML, strictTool({ 'x>y': {} })).param, `${PATH}.properties.x>y`);
  });

  it('is any text for functions that are not strict, if the schema cannot be enforced', () => {
    const used = tool('f', { a: { type: ['string', 'integer'], minimum: 3 } });
    assert.ok(new Gbnf(grammarOf(QWEN_XML, used)).accepts(call('1 to 2')));
  });
});
