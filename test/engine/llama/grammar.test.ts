import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { hostileSchemas } from '../../support/hostile-schemas.ts';
import { loadBackend } from '../../../src/engine/llama/native/backend.ts';
import type { Addon } from '../../../src/engine/llama/native/addon.ts';
import { MAX_BRANCHES } from '../../../src/engine/llama/grammar/grammar-rules.ts';
import { TokenSample } from '../../../src/engine/llama/grammar/grammar-work.ts';
import { toGbnf } from '../../../src/engine/llama/output/response-grammar.ts';
import { HARMONY_CHANNELS } from '../../../src/engine/llama/tool-calls/reasoning.ts';
import { ServiceError } from '../../../src/core/errors.ts';
import { parseExactJson } from '../../../src/json/exact-json.ts';
import { SILENT } from '../../../src/support/log.ts';
import { definitions, readsOf, to } from '../../json/counted-reads.ts';
import { Gbnf } from './gbnf.ts';
import { Stacks } from './stacks.ts';
import { TOKENS, VOCABULARY } from './tokens.ts';
import { LITERAL, satisfies, type Schema, schemas } from './json-schema.ts';

const PATH = 'response_format.json_schema.schema';

/** Passes the schema as a client does that reaches the port of an engine: it may be any JSON. */
function gbnfOf(schema: Schema, vocabulary = VOCABULARY): string {
  return toGbnf({ type: 'json_schema', name: 'test', schema, strict: true }, vocabulary);
}

/** Counts the estimates of work, each of which depends on the size of the vocabulary. */
class CountedSample extends TokenSample {
  estimates = 0;

  constructor() {
    super(50_000, () => 'a');
    const { size } = this;
    Object.defineProperty(this, 'size', { get: () => (this.estimates++, size) });
  }
}

function grammarOrRefusal(schema: Schema): string | ServiceError {
  try {
    return gbnfOf(schema);
  } catch (error) {
    assert.ok(error instanceof ServiceError);
    return error;
  }
}

function refusalOf(schema: Schema): ServiceError {
  const refusal = grammarOrRefusal(schema);
  assert.ok(refusal instanceof ServiceError, 'the schema was accepted');
  return refusal;
}

const TOO_SLOW = /^The text can continue in too many ways here/;

/** Returns the grammar, or null if the schema cannot be satisfied or its grammar would be too slow. */
function maybeGbnf(schema: Schema): string | null {
  try {
    return gbnfOf(schema);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    if (error.message === 'No value can satisfy this schema.' || TOO_SLOW.test(error.message)) return null;
    throw error;
  }
}

/** Returns a generator of numbers from 0 to 1 (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns a copy of a JSON value with one change. */
function changed(value: unknown, other: unknown, random: () => number): unknown {
  if (random() < 0.3) return other;
  if (Array.isArray(value) && value.length > 0) {
    const at = Math.floor(random() * value.length);
    if (random() < 0.3) return value.toSpliced(at, 1);
    if (random() < 0.3) return [...value, other];
    return value.with(at, changed(value[at], other, random));
  }
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value);
    const at = Math.floor(random() * entries.length);
    const entry = entries[at];
    if (entry === undefined || random() < 0.2) return { ...value, other };
    if (random() < 0.4) return Object.fromEntries(entries.toSpliced(at, 1));
    return Object.fromEntries(entries.with(at, [entry[0], changed(entry[1], other, random)]));
  }
  return other;
}

/** Whether the grammars can represent the digits of all numbers, and no object has numeric keys, which JavaScript would reorder. */
function isPlain(value: unknown): boolean {
  if (typeof value === 'number') return /^-?\d{1,15}(\.\d{1,15})?$/.test(String(value));
  if (typeof value !== 'object' || value === null) return true;
  const inOrder = Array.isArray(value) || !Object.keys(value).some((name) => /^\d+$/.test(name));
  return inOrder && Object.values(value).every(isPlain);
}

const LETTERS = Array.from('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ');

const USUAL_PATTERNS = [
  '^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\\.[a-zA-Z]{2,}$',
  '^[a-z0-9.-]{1,64}@[a-z0-9.-]{1,255}\\.[a-z]{2,}$',
  '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}(\\.\\d+)?(Z|[+-]\\d{2}:\\d{2})$',
  '^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$',
  '^((25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)$',
  '^https?://[\\w.-]+(:\\d+)?(/[\\w./?%&=-]*)?$',
  '^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)\\.(0|[1-9]\\d*)(-[0-9a-zA-Z-]+(\\.[0-9a-zA-Z-]+)*)?$',
  '^\\+?[1-9]\\d{1,14}$',
  '^#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$',
  '^(foo|bar|baz)(, (foo|bar|baz))*$',
  '^(\\w+\\s?)+$',
  '^.{1,1000}$',
  'foo.*bar',
];

/** More visits than the grammars of `bombs` need, and far fewer than ambiguous grammars need. */
const MAX_VISITS = 4000;

/** More than any accepted schema needs. */
const MAX_HOSTILE_VISITS = 40_000;

function codesOf(text: string): number[] {
  return Array.from(text, (character) => character.codePointAt(0) ?? 0);
}

function nest(depth: number, outer: (inner: Schema, level: number) => Schema): Schema {
  return Array.from({ length: depth }, (_, i) => i).reduce<Schema>(outer, true);
}

/** An object that starts with a constant `name`. */
function objectWithName(name: string, more: Record<string, Schema>): Schema {
  return {
    type: 'object',
    properties: { name: { const: name }, ...more },
    required: ['name', ...Object.keys(more)],
  };
}

const seeds = fc.integer();

describe('the grammar of a JSON schema', () => {
  it('generates only instances of the schema', () => {
    fc.assert(
      fc.property(schemas, seeds, (schema, seed) => {
        const gbnf = maybeGbnf(schema);
        if (gbnf === null) return;
        const text = new Gbnf(gbnf).sample(randomFrom(seed));
        assert.ok(satisfies(JSON.parse(text), schema, schema, false), text);
      }),
      { numRuns: 500 },
    );
  });

  it('is too slow for at most 5 of 1000 ordinary schemas', () => {
    const refused = fc.sample(schemas, 1000).filter((schema) => {
      const gbnf = grammarOrRefusal(schema);
      return gbnf instanceof ServiceError && TOO_SLOW.test(gbnf.message);
    });
    assert.ok(refused.length <= 5, JSON.stringify(refused));
  });

  it('accepts instances, compact or indented, and refuses values that a change has made invalid', () => {
    fc.assert(
      fc.property(schemas, seeds, LITERAL, (schema, seed, other) => {
        const gbnf = maybeGbnf(schema);
        if (gbnf === null) return;
        const grammar = new Gbnf(gbnf);
        const random = randomFrom(seed);
        const value: unknown = JSON.parse(grammar.sample(random, 20));
        fc.pre(isPlain(value));
        for (const candidate of [value, changed(value, other, random), changed(value, other, random)]) {
          const expected = satisfies(candidate, schema, schema, true);
          const text = JSON.stringify(candidate);
          assert.equal(grammar.accepts(text), expected, text);
          // Literal objects and arrays are always compact.
          if (expected && !/\[1,"a"\]|\{"a":1\}/.test(JSON.stringify(schema))) {
            assert.ok(grammar.accepts(JSON.stringify(candidate, null, 2)), 'indented');
          }
        }
      }),
      { numRuns: 500 },
    );
  });

  it('accepts required properties in the order of the schema, and optional ones in any order', () => {
    const [a, b, c, d] = Array.from({ length: 4 }, () => ({ type: 'null' }));
    const grammar = new Gbnf(gbnfOf({ properties: { a, b, c, d }, required: ['a', 'c'] }));
    const text = (names: string): string => `{${Array.from(names, (name) => `"${name}":null`).join(', ')}}`;
    for (const names of ['ac', 'abc', 'acb', 'acd', 'adcb', 'acdb', 'abdc'])
      assert.ok(grammar.accepts(text(names)), names);
    for (const names of ['', 'a', 'c', 'ca', 'bac', 'acc', 'abcb', 'acx', 'ad'])
      assert.ok(!grammar.accepts(text(names)), names);
    assert.ok(!grammar.accepts('{"a":null, "c":null,}'));
    const optional = new Gbnf(gbnfOf({ properties: { a, b } }));
    for (const names of ['', 'a', 'b', 'ab', 'ba']) assert.ok(optional.accepts(text(names)), names);
    assert.ok(!optional.accepts(text('bab')));
  });

  it('accepts many optional properties in the order of the schema only, because any order needs many rules', () => {
    const names = Array.from({ length: 8 }, (_, index) => `p${index}`);
    const schema = { properties: Object.fromEntries(names.map((name) => [name, { type: 'null' }])) };
    const grammar = new Gbnf(gbnfOf(schema));
    assert.ok(grammar.accepts('{"p2":null,"p7":null}'));
    assert.ok(!grammar.accepts('{"p7":null,"p2":null}'));
  });

  it('prevents additional properties from overwriting others, even with escapes', () => {
    const grammar = new Gbnf(
      gbnfOf({ properties: { ab: { type: 'null' } }, additionalProperties: { type: 'integer' } }),
    );
    for (const text of ['{"ab":null,"a":1}', '{"abc":1}', '{"":1}', '{"b":1,"é":2}'])
      assert.ok(grammar.accepts(text), text);
    for (const text of ['{"ab":1}', '{"a":1,"ab":null}', '{"\\u0061b":1}'])
      assert.ok(!grammar.accepts(text), text);
  });

  it('requires the numbers of const and enum as they were written', () => {
    const schema = '{"enum": [1234567890123456789, 1.0, 1e400, {"a": [0.10]}], "type": ["number", "object"]}';
    const grammar = new Gbnf(gbnfOf(parseExactJson(schema) as Schema));
    for (const text of ['1234567890123456789', '1.0', '1e400', '{"a":[0.10]}'])
      assert.ok(grammar.accepts(text), text);
    for (const text of ['1234567890123456800', '1', 'null', '{"a":[0.1]}'])
      assert.ok(!grammar.accepts(text), text);
    const whole = new Gbnf(gbnfOf(parseExactJson('{"type": "integer", "enum": [2.0, 2.5]}') as Schema));
    assert.ok(whole.accepts('2.0') && !whole.accepts('2.5'));
  });

  it('reads bounds that keep their text', () => {
    const whole = new Gbnf(
      gbnfOf(parseExactJson('{"type": "integer", "minimum": 1.0, "maximum": 1e1}') as Schema),
    );
    assert.ok(whole.accepts('10') && !whole.accepts('0') && !whole.accepts('11'));
    const schema =
      '{"type": "array", "items": {"type": "string", "maxLength": 2.0}, "minItems": 1.0, "maxItems": 2.0}';
    const list = new Gbnf(gbnfOf(parseExactJson(schema) as Schema));
    assert.ok(list.accepts('["ab","c"]') && !list.accepts('[]') && !list.accepts('["abc"]'));
    assert.ok(!list.accepts('["a","b","c"]'));
  });

  it('counts the length of a string in characters, escaped or not', () => {
    const grammar = new Gbnf(gbnfOf({ minLength: 2, maxLength: 2 }));
    for (const text of ['"ab"', '"é😀"', '"\\u00e9\\ud83d\\ude00"', '"\\n\\""'])
      assert.ok(grammar.accepts(text), text);
    for (const text of ['"a"', '"abc"', '"\\ud83d\\ud83d"', '"a\\ud83d"', '"a\n"'])
      assert.ok(!grammar.accepts(text), text);
    const long = new Gbnf(gbnfOf({ minLength: 499, maxLength: 1251 }));
    for (const [length, accepted] of [
      [498, false],
      [499, true],
      [750, true],
      [1251, true],
      [1252, false],
    ] as const) {
      assert.equal(long.accepts(`"${'x'.repeat(length)}"`), accepted, `${length}`);
    }
  });

  it('accepts exactly the numbers within bounds', () => {
    for (const [low, high] of [
      [0, 9],
      [-5, 105],
      [-1009, -98],
      [17, 17],
      [990, 1010],
    ] as const) {
      const integers = new Gbnf(gbnfOf({ type: 'integer', minimum: low, maximum: high }));
      const within = new Gbnf(gbnfOf({ type: 'number', exclusiveMinimum: low, exclusiveMaximum: high + 1 }));
      for (let value = -1100; value <= 1100; value += 1) {
        assert.equal(integers.accepts(String(value)), low <= value && value <= high, `${value}`);
        const between = value + (value < 0 ? -0.5 : 0.5);
        assert.equal(within.accepts(String(between)), low < between && between < high + 1, `${between}`);
      }
    }
    const part = new Gbnf(gbnfOf({ type: 'number', minimum: 0, maximum: 1 }));
    for (const text of ['0', '0.5', '1', '1.0']) assert.ok(part.accepts(text), text);
    for (const text of ['1.5', '-0.5', '-0', '01', '1e0', '.5']) assert.ok(!part.accepts(text), text);
    const counts = new Gbnf(gbnfOf({ type: 'integer', minimum: 0.5, maximum: 2 ** 63 }));
    for (const text of ['1', '9007199254740991']) assert.ok(counts.accepts(text), text);
    for (const text of ['0', '9007199254740992', '-1']) assert.ok(!counts.accepts(text), text);
  });

  it('bounds white space', () => {
    const grammar = new Gbnf(gbnfOf({ type: 'array', items: { type: 'null' } }));
    assert.ok(grammar.accepts('[\n    null,\n    null\n]'));
    for (const text of ['[  null]', '[\n\nnull]', ' []', '[] ', `[\n${' '.repeat(21)}null]`])
      assert.ok(!grammar.accepts(text));
  });

  it('supports recursive references and refuses endless ones', () => {
    const circle = {
      $defs: { a: { anyOf: [{ $ref: '#/$defs/b' }, { type: 'null' }] }, b: { $ref: '#/$defs/a' } },
      $ref: '#/$defs/b',
    };
    assert.equal(refusalOf(circle).code, 'invalid_value');
    const tree = { type: 'array', items: { $ref: '#' } };
    assert.ok(new Gbnf(gbnfOf(tree)).accepts('[[],[[]]]'));
    assert.equal(refusalOf({ $defs: { a: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' }).code, 'invalid_value');
    const escaped = { $defs: { 'a/b~': { const: 1 } }, $ref: '#/$defs/a~1b~0' };
    assert.ok(new Gbnf(gbnfOf(escaped)).accepts('1'));
  });

  const refused: readonly [schema: Schema, code: string, path: string][] = [
    [{ multipleOf: 2 }, 'unsupported_parameter', '.multipleOf'],
    [{ properties: { a: { items: { not: {} } } } }, 'unsupported_parameter', '.properties.a.items.not'],
    [{ anyOf: [{ type: 'string' }, { type: 'text' }] }, 'invalid_value', '.anyOf[1].type'],
    [{ anyOf: [{}], minLength: 1 }, 'unsupported_parameter', '.minLength'],
    [{ allOf: [{}, {}] }, 'unsupported_parameter', '.allOf'],
    [{ enum: [1], minimum: 3 }, 'unsupported_parameter', '.minimum'],
    [{ $ref: 'http://x.test/schema' }, 'unsupported_parameter', '.$ref'],
    [{ $ref: '#/$defs/x' }, 'invalid_value', '.$ref'],
    [{ $ref: '#' }, 'invalid_value', '.$ref'],
    [{ type: 5 }, 'invalid_type', '.type'],
    [{ properties: { a: null } }, 'invalid_type', '.properties.a'],
    [{ format: 'email' }, 'unsupported_parameter', '.format'],
    [{ pattern: '(' }, 'invalid_value', '.pattern'],
    [{ pattern: '(?=a)b' }, 'unsupported_parameter', '.pattern'],
    [{ pattern: '\\bword' }, 'unsupported_parameter', '.pattern'],
    [{ pattern: '\\p{L}' }, 'unsupported_parameter', '.pattern'],
    [{ pattern: '(?i:a)' }, 'unsupported_parameter', '.pattern'],
    [{ pattern: '(?<name>a)\\k<name>' }, 'unsupported_parameter', '.pattern'],
    [{ pattern: 'a$b' }, 'unsupported_parameter', '.pattern'],
    [
      { pattern: `^(${LETTERS.map((letter) => `${letter}[^${letter}]`).join('|')})*$` },
      'invalid_value',
      '.pattern',
    ],
    [{ properties: { a: { pattern: '^(a|b)*a(a|b){20}$' } } }, 'invalid_value', '.properties.a.pattern'],
    [{ pattern: '(a{1,50}){1,50}' }, 'invalid_value', '.pattern'],
    [{ type: 'number', minimum: 0.5 }, 'unsupported_parameter', ''],
    [{ type: 'integer', minimum: 3, maximum: 2 }, 'invalid_value', '.maximum'],
    [{ multipleOf: null }, 'unsupported_parameter', '.multipleOf'],
    [{ type: 'string', enum: [1] }, 'invalid_value', ''],
    [{ required: ['a'], additionalProperties: false }, 'invalid_value', '.required'],
    [{ minItems: 2, maxItems: 1 }, 'invalid_value', '.maxItems'],
    [{ minItems: 2, prefixItems: [{}] }, 'invalid_value', ''],
    [{ maxItems: 10_001 }, 'invalid_value', '.maxItems'],
    [{ maxLength: -1 }, 'invalid_value', '.maxLength'],
  ];
  for (const [schema, code, path] of refused) {
    it(`refuses ${JSON.stringify(schema)} with its path`, () => {
      const error = refusalOf(schema);
      assert.deepEqual([error.status, error.code, error.param], [400, code, PATH + path]);
    });
  }

  it('refuses schemas that are too expensive', () => {
    const names = Array.from({ length: MAX_BRANCHES + 1 }, (_, i) => `name${i}`);
    const tooExpensive: Schema[] = [
      { properties: Object.fromEntries(names.map((name) => [name, true])) },
      { enum: names },
      { anyOf: names.map((name) => ({ const: name })) },
      { properties: { ['x'.repeat(300)]: true } },
      { enum: ['x'.repeat(300_000)] },
      { prefixItems: Array.from({ length: 200 }, (_, i) => ({ maxLength: 10_000 - i })) },
      {
        $defs: Object.fromEntries(
          Array.from({ length: 2000 }, (_, i) => [`d${i}`, { $ref: `#/$defs/d${i + 1}` }]),
        ),
        $ref: '#/$defs/d0',
      },
      {
        $defs: Object.fromEntries(
          Array.from({ length: 2000 }, (_, i) => [`d${i}`, { items: { $ref: `#/$defs/d${i + 1}` } }]),
        ),
        $ref: '#/$defs/d0',
      },
    ];
    for (const schema of tooExpensive) assert.equal(refusalOf(schema).code, 'invalid_value');
  });

  it('supports repetitions of expressions that can be empty', () => {
    const grammar = new Gbnf(gbnfOf({ pattern: '^(a*b?)*c$' }));
    for (const text of ['"c"', '"aabac"', '"bbc"']) assert.ok(grammar.accepts(text), text);
    for (const text of ['""', '"a"', '"cc"']) assert.ok(!grammar.accepts(text), text);
  });

  const bombs: readonly [name: string, schema: Schema][] = [
    ['[ab]? 199 times', { pattern: `^${'[ab]?'.repeat(199)}$` }],
    ['x? 240 times', { pattern: `^${'x?'.repeat(240)}$` }],
    ['x* 480 times', { pattern: `^${'x*'.repeat(480)}$` }],
    ['(x|y)? 80 times', { pattern: `^${'(x|y)?'.repeat(80)}$` }],
    ['(\\w+\\s?)+', { pattern: '^(\\w+\\s?)+$' }],
    ['(a|b|ab)* twice', { pattern: '^(a|b|ab)*(a|ab|b)*$' }],
    ['nested arrays with long bounds', nest(6, (items, i) => ({ type: 'array', items, maxItems: 300 + i }))],
    [
      '50 numbers with bounds',
      { anyOf: Array.from({ length: 50 }, (_, i) => ({ type: 'integer', minimum: i })) },
    ],
    [
      'one pattern 60 times',
      { anyOf: Array.from({ length: 60 }, () => ({ pattern: `^${'[ab]?'.repeat(199)}$` })) },
    ],
  ];
  for (const [name, schema] of bombs) {
    it(`needs few stacks in llama.cpp: ${name}`, () => {
      const stacks = new Stacks(gbnfOf(schema));
      const tokens = [...TOKENS, 'aab', 'abba', 'aaac', 'xx', 'xxyz', 'xyx', '12', '345', ']]', '],['].map(
        codesOf,
      );
      for (const code of codesOf('"[[12aabxbaxxabcdef')) {
        assert.ok(stacks.visits(tokens, MAX_VISITS) < MAX_VISITS);
        const before = stacks.size;
        if (before > 0) stacks.accept(code);
      }
    });
  }

  it('needs few stacks in llama.cpp for hostile schemas, or refuses them', () => {
    const tokens = TOKENS.map(codesOf);
    fc.assert(
      fc.property(hostileSchemas, seeds, (schema, seed) => {
        const gbnf = grammarOrRefusal(schema);
        if (gbnf instanceof ServiceError) return assert.equal(gbnf.status, 400);
        const stacks = new Stacks(gbnf);
        for (const code of codesOf(new Gbnf(gbnf).sample(randomFrom(seed), 10)).slice(0, 8)) {
          assert.ok(stacks.visits(tokens, MAX_HOSTILE_VISITS) < MAX_HOSTILE_VISITS);
          stacks.accept(code);
        }
      }),
      { numRuns: 40 },
    );
  });

  it('reads pairs of escaped surrogates as one character', () => {
    const grammar = new Gbnf(gbnfOf({ pattern: String.raw`^[^\uD83D\uDE00-\uD83D\uDE4F]\ud83d\ude80$` }));
    assert.ok(grammar.accepts('"a🚀"'));
    for (const text of ['"😀🚀"', '"a"', '"a😀"']) assert.ok(!grammar.accepts(text), text);
    // With braces, each escape is a character.
    assert.equal(refusalOf({ pattern: String.raw`^\u{D83D}\uDE00$` }).code, 'invalid_value');
  });

  it('reads the deepest patterns', () => {
    const pattern = `^${'('.repeat(498)}a${')'.repeat(498)}$`;
    assert.ok(new Gbnf(gbnfOf({ pattern })).accepts('"a"'));
  });

  it('excludes surrogates, which UTF-8 cannot encode', () => {
    for (const pattern of ['[^a]a$', '.b', '^[^b]*$']) assert.doesNotMatch(gbnfOf({ pattern }), /d800-/i);
  });

  it('refuses patterns whose union is too ambiguous', () => {
    const pattern = (i: number): string =>
      `^${`[${LETTERS[i % 52]}${LETTERS[(i * 7 + 1) % 52]}]?`.repeat(40)}$`;
    const error = refusalOf({
      properties: { a: { anyOf: LETTERS.map((_, i) => ({ pattern: pattern(i) })) } },
    });
    assert.deepEqual([error.code, error.param], ['invalid_value', `${PATH}.properties.a`]);
  });

  it('accepts common schemas and patterns', () => {
    const text = { type: 'string' };
    const names = Array.from({ length: 200 }, (_, i) => `name${i}`);
    const usual: Schema[] = [
      { type: 'object', properties: Object.fromEntries(names.slice(0, 30).map((name) => [name, text])) },
      {
        type: 'object',
        properties: Object.fromEntries(names.map((name) => [name, { type: ['number', 'null'] }])),
      },
      { type: 'array', items: { enum: names }, maxItems: 10_000 },
      { anyOf: names.slice(0, 100).map((name) => objectWithName(name, { arguments: { type: 'object' } })) },
      { type: 'object', additionalProperties: { type: 'string', minLength: 1, maxLength: 10_000 } },
      ...USUAL_PATTERNS.map((pattern) => ({ type: 'string', pattern })),
    ];
    for (const schema of usual) assert.ok(gbnfOf(schema), JSON.stringify(schema));
    assert.ok(
      gbnfOf({ properties: Object.fromEntries(USUAL_PATTERNS.map((pattern) => [pattern, { pattern }])) }),
    );
  });

  it('refuses nested alternatives that start the same way, which double the work with each bracket', () => {
    const self = { $ref: '#/$defs/node' };
    const recursive = (...anyOf: Schema[]): Schema => ({ $defs: { node: { anyOf } }, ...self });
    const list = { type: 'array', items: self };
    const twins: Schema[] = [
      recursive(list, { ...list, minItems: 1 }, { type: 'null' }),
      recursive(objectWithName('a', { of: self }), objectWithName('a', { of: self, more: true }), {
        type: 'null',
      }),
      recursive({ properties: { a: self } }, { properties: { a: self, b: self } }),
      {
        $defs: Object.fromEntries(
          Array.from({ length: 12 }, (_, i) => {
            const items = i === 0 ? true : { $ref: `#/$defs/d${i - 1}` };
            return [`d${i}`, { anyOf: [{ items }, { items, minItems: 1 }] }];
          }),
        ),
        $ref: '#/$defs/d11',
      },
    ];
    for (const schema of twins) assert.match(refusalOf(schema).message, /start the same way/);
    const distinct: Schema[] = [
      recursive(list, { type: 'object', additionalProperties: self }, { type: 'null' }),
      recursive({ properties: { a: self } }, { properties: { b: self } }),
      recursive(objectWithName('a', { of: self }), objectWithName('b', { of: self }), { type: 'null' }),
      recursive(
        {
          type: 'object',
          properties: { name: { type: 'string' }, size: { type: 'integer' } },
          required: ['name', 'size'],
        },
        {
          type: 'object',
          properties: { name: { type: 'string' }, files: list },
          required: ['name', 'files'],
        },
      ),
      {
        anyOf: Array.from({ length: 200 }, (_, i) => ({ properties: { [`name${i}`]: { type: 'string' } } })),
      },
    ];
    for (const schema of distinct) assert.ok(gbnfOf(schema));
  });

  it('takes work that grows with the size of the schema, however its references are connected', () => {
    const union = (count: number, member: (index: number) => object) => ({
      anyOf: Array.from({ length: count }, (_, index) => member(index)),
    });
    /** Objects of at most 100 references to one definition. */
    const references = (count: number, target: object) => ({
      properties: definitions(count / 100, () => ({ properties: definitions(100, () => to(0)) })),
      $defs: { d0: target },
    });
    const hostile: Record<string, (count: number) => object> = {
      'references to one union of patterns': (count) =>
        references(
          count,
          union(count / 8, (index) => ({ type: 'string', pattern: `^a${index}$` })),
        ),
      'references to one union of objects': (count) =>
        references(
          count,
          union(count / 8, (index) => ({
            properties: { [`k${index}`]: {} },
            required: [`k${index}`],
            additionalProperties: false,
          })),
        ),
      'references to one chain of references': (count) => ({
        ...references(count, to(1)),
        $defs: definitions(count, (index) => (index + 1 < count ? to(index + 1) : { type: 'string' })),
      }),
    };
    for (const [name, schema] of Object.entries(hostile)) {
      const [few, many] = [readsOf(schema(400), gbnfOf), readsOf(schema(800), gbnfOf)];
      assert.ok(many < 2.2 * few, `${name}: ${few} reads, then ${many}`);
    }
  });

  it('refuses recursion whose work rises slowly after little work, however large the rest of the schema is', () => {
    /** Unions of the same arrays, which nothing distinguishes, and a recursion that adds one array in each round. */
    const wide = (unions: number) => ({
      properties: {
        ...definitions(unions, (index) => ({ $ref: `#/$defs/union${index}` })),
        deep: { $ref: '#/$defs/deep' },
      },
      $defs: {
        ...definitions(100, (index) => ({ type: 'array', items: { const: index } })),
        ...Object.fromEntries(
          Array.from({ length: unions }, (_, union) => [
            `union${union}`,
            { anyOf: Array.from({ length: 100 }, (_, index) => to(index)) },
          ]),
        ),
        deep: {
          anyOf: [
            { type: 'array', items: { $ref: '#/$defs/deep' } },
            { type: 'array', items: { const: 1 } },
          ],
        },
      },
    });
    for (const unions of [1, 12]) {
      const vocabulary = new CountedSample();
      assert.throws(() => gbnfOf(wide(unions), vocabulary), {
        code: 'invalid_value',
        param: new RegExp(`^${RegExp.escape(PATH)}\\.properties\\.deep`),
      });
      assert.ok(vocabulary.estimates < 100_000, `${vocabulary.estimates} estimates of ${unions} unions`);
    }
  });
});

describe('the grammar of a JSON object', () => {
  it('accepts all objects and nothing else', () => {
    const gbnf = toGbnf({ type: 'json_object' }, VOCABULARY);
    const grammar = new Gbnf(gbnf);
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 3 }), (value) => {
        fc.pre(isPlain(value));
        const expected = typeof value === 'object' && value !== null && !Array.isArray(value);
        assert.equal(grammar.accepts(JSON.stringify(value)), expected);
      }),
    );
  });
});

describe('llama.cpp', () => {
  let addon: Addon | undefined;
  before(async () => {
    addon = await loadBackend(SILENT).then(
      (backend) => backend.addon,
      () => undefined,
    );
  });

  it('interprets the grammars like the interpreter of these tests', (test) => {
    if (addon === undefined) return test.skip('no engine package is installed for this platform');
    const { AddonGrammar } = addon;
    fc.assert(
      fc.property(schemas, seeds, LITERAL, (schema, seed, other) => {
        const gbnf = maybeGbnf(schema);
        if (gbnf === null) return;
        const random = randomFrom(seed);
        const grammar = new Gbnf(gbnf);
        // Only tests use this method of the addon, which matches the whole text.
        const native = new AddonGrammar(gbnf, { addonExports: addon as Addon }) as {
          isTextCompatible(text: string): boolean;
        };
        const text = grammar.sample(random, 20);
        assert.ok(native.isTextCompatible(text), text);
        const mutant = JSON.stringify(changed(JSON.parse(text), other, random));
        assert.equal(native.isTextCompatible(mutant), grammar.accepts(mutant), mutant);
      }),
      { numRuns: 150 },
    );
  });
});

describe('the grammar of a format that is not strict', () => {
  const grammarOf = (schema: Schema): Gbnf =>
    new Gbnf(toGbnf({ type: 'json_schema', name: 'test', schema, strict: null }, VOCABULARY));

  it('ignores constraints of strings and numbers if one of them is not supported', () => {
    const a: Schema = { type: 'string', format: 'email' };
    const grammar = grammarOf({
      type: 'object',
      properties: { a, format: { const: { format: 'x' } } },
      required: ['a', 'format'],
    });
    assert.ok(grammar.accepts('{"a":"b","format":{"format":"x"}}'));
    assert.ok(!grammar.accepts('{"a":1,"format":{"format":"x"}}'));
  });

  it('only requires JSON of the right type if the schema is not supported', () => {
    const grammar = grammarOf({ type: 'object', properties: { a: { not: {} } } });
    assert.ok(grammar.accepts('{"a":[1]}'));
    assert.ok(!grammar.accepts('[1]'));
    assert.ok(grammarOf({ allOf: [{}, {}] }).accepts('[1]'));
  });
});

describe('the grammar of a format for gpt-oss', () => {
  const { open, answer = '' } = HARMONY_CHANNELS;
  const grammarOf = (opening: string): Gbnf =>
    new Gbnf(toGbnf({ type: 'json_object' }, VOCABULARY, { opening, before: answer }));

  it('requires the header of an answer', () => {
    for (const opening of ['', open]) {
      const grammar = grammarOf(opening);
      assert.ok(grammar.accepts('<|channel|>final<|message|>{"a":1}'));
      assert.ok(grammar.accepts('<|start|>assistant<|channel|>final <|constrain|>json<|message|>{"a":1}'));
      assert.ok(!grammar.accepts('{"a":1}'));
      assert.equal(grammar.accepts('<|channel|>analysis<|message|>Hm.'), opening !== '');
    }
  });
});
