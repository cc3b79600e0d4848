import * as fc from './fast-check.ts';

type Schema = boolean | { [keyword: string]: unknown };

const LETTERS = Array.from('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ');

function repeated(pattern: string, times: number): { pattern: string } {
  return { pattern: `^${pattern.repeat(times)}$` };
}

/** Schemas that have stalled an engine, or nearly. */
export const STALLING_SCHEMAS: Readonly<Record<string, Schema>> = {
  '[ab]? 199 times': repeated('[ab]?', 199),
  'x? 240 times': repeated('x?', 240),
  'x* 480 times': repeated('x*', 480),
  '(x|y)? 80 times': repeated('(x|y)?', 80),
  'anyOf of 200 patterns': {
    anyOf: Array.from({ length: 200 }, (_, i) => ({
      pattern: `^${`[${LETTERS[i % 52]}${LETTERS[(i * 7 + 1) % 52]}]?`.repeat(20 + (i % 20))}$`,
    })),
  },
  'anyOf of one pattern 200 times': { anyOf: Array.from({ length: 200 }, () => repeated('[ab]?', 199)) },
  'characters that must differ from the next': {
    pattern: `^(${LETTERS.map((letter) => `${letter}[^${letter}]`).join('|')})*$`,
  },
  '10 characters that must differ from the next': {
    pattern: `^(${LETTERS.slice(0, 10)
      .map((letter) => `${letter}[^${letter}]`)
      .join('|')})*$`,
  },
  'words with optional spaces': { pattern: '^(\\w+\\s?)+$' },
  '250 optional properties': objectOf(250),
  '30 optional properties': objectOf(30),
  'anyOf of 60 objects': { anyOf: Array.from({ length: 60 }, (_, i) => objectOf(1, i)) },
  'an enum of 200': { type: 'array', items: { enum: Array.from({ length: 200 }, (_, i) => `name${i}`) } },
  'an enum of 250 characters': {
    type: 'array',
    items: { enum: Array.from({ length: 250 }, (_, i) => String.fromCodePoint(0x4e00 + i)) },
  },
  'nested arrays with large bounds': Array.from({ length: 8 }).reduce<Schema>(
    (items, _, i) => ({ type: 'array', items, maxItems: 300 + i }),
    { type: 'string', maxLength: 10_000 },
  ),
};

function objectOf(properties: number, first = 0): Schema {
  const names = Array.from({ length: properties }, (_, i) => `name${first + i}`);
  return { type: 'object', properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])) };
}

const ATOMS = [
  'a',
  'b',
  'x',
  'e',
  ' ',
  '1',
  '[ab]',
  '[a-z]',
  '[^a]',
  '[aeiou]',
  '[0-9a-f]',
  '.',
  '\\w',
  '\\d',
  '\\s',
  '"',
  'é',
  '\\\\',
];
const atoms = fc.constantFrom(...ATOMS);
const quantifiers = fc.oneof(
  { weight: 3, arbitrary: fc.constant('') },
  { weight: 3, arbitrary: fc.constantFrom('?', '*', '+', '??') },
  fc.tuple(fc.nat(20), fc.nat(200)).map(([min, more]) => `{${min},${min + more}}`),
);

/** Expressions with sequences of optional parts, alternatives with common prefixes, and nested repetitions. */
const expressions = fc.letrec<{ part: string; sequence: string }>((tie) => ({
  part: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    { weight: 3, arbitrary: fc.tuple(atoms, quantifiers).map(([atom, times]) => atom + times) },
    fc
      .tuple(fc.array(tie('sequence'), { minLength: 1, maxLength: 4 }), quantifiers)
      .map(([members, times]) => `(${members.join('|')})${times}`),
    fc.tuple(tie('part'), fc.integer({ min: 2, max: 120 })).map(([part, times]) => part.repeat(times)),
  ),
  sequence: fc.array(tie('part'), { minLength: 1, maxLength: 4 }).map((parts) => parts.join('')),
})).sequence;

const patterns = fc
  .tuple(fc.constantFrom('^', '^', ''), expressions, fc.constantFrom('$', '$', ''))
  .map((parts) => ({ type: 'string', pattern: parts.join('') }));

const scalars: fc.Arbitrary<Schema> = fc.oneof(
  { weight: 4, arbitrary: patterns },
  fc.constantFrom<Schema>(true, { type: 'string' }, { type: 'boolean' }, { type: ['null', 'integer'] }),
  fc.tuple(fc.nat(300), fc.nat(3000)).map(([min, more]) => ({ minLength: min, maxLength: min + more })),
  fc
    .tuple(fc.constantFrom('integer', 'number'), fc.integer(), fc.nat())
    .map(([type, minimum, more]) => ({ type, minimum, maximum: minimum + more })),
  fc
    .array(fc.string({ maxLength: 12 }), { minLength: 1, maxLength: 200 })
    .map((values) => ({ enum: values })),
  fc.constantFrom('date', 'time', 'date-time', 'uuid').map((format) => ({ type: 'string', format })),
);

const names = fc.constantFrom(
  ...LETTERS.slice(0, 12).flatMap((letter) => [letter, `${letter}b`, `name_${letter}`]),
);

/** Generates schemas that are meant to stall an engine. */
export const hostileSchemas: fc.Arbitrary<Schema> = fc
  .letrec<{ schema: Schema }>((tie) => ({
    schema: fc.oneof(
      { maxDepth: 3, depthSize: 'small' },
      { weight: 2, arbitrary: scalars },
      fc.array(tie('schema'), { minLength: 2, maxLength: 20 }).map((anyOf) => ({ anyOf })),
      fc
        .tuple(tie('schema'), fc.nat(5), fc.option(fc.nat(1000), { nil: undefined }))
        .map(([items, minItems, more]) => ({
          type: 'array',
          items,
          minItems,
          ...(more === undefined ? {} : { maxItems: minItems + more }),
        })),
      fc
        .tuple(
          fc.dictionary(names, tie('schema'), { maxKeys: 20 }),
          fc.subarray(LETTERS.slice(0, 12)),
          fc.boolean(),
        )
        .map(([properties, required, additionalProperties]) => ({
          type: 'object',
          properties,
          required: required.filter((name) => name in properties),
          additionalProperties,
        })),
      fc.constant({ $ref: '#/$defs/tree' }),
    ),
  }))
  .schema.map((schema) => ({
    anyOf: [schema],
    $defs: { tree: { anyOf: [{ type: 'array', items: { $ref: '#/$defs/tree' } }, { type: 'null' }] } },
  }));
