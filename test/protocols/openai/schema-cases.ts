/** A JSON schema, with the keyword that each server does not enforce; null: it enforces all. */
export interface SchemaCase {
  name: string;
  schema: Record<string, unknown>;
  vllm: string | null;
  'llama-server': string | null;
}

const cases: SchemaCase[] = [];

/** Adds a schema that both servers enforce. */
function enforced(name: string, schema: Record<string, unknown>): void {
  cases.push({ name, schema, vllm: null, 'llama-server': null });
}

function refused(
  name: string,
  schema: Record<string, unknown>,
  by: { vllm?: string; 'llama-server'?: string },
): void {
  cases.push({ name, schema, vllm: by.vllm ?? null, 'llama-server': by['llama-server'] ?? null });
}

const boolean = { type: 'boolean' };
const nothing = { type: 'null' };
const object = (properties: object, more: object = {}) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
  ...more,
});
const pattern = (text: string) => ({ type: 'string', pattern: text });
const both = (keyword: string) => ({ vllm: keyword, 'llama-server': keyword });

enforced('type: string', { type: 'string', maxLength: 20 });
enforced('type: integer', { type: 'integer', minimum: 0, maximum: 99 });
enforced('type: boolean', boolean);
enforced('type: null', nothing);
enforced('several types', { type: ['boolean', 'null'] });
enforced('enum', { enum: ['a"b', 'é', '\n', '\\', 1.5, null, { a: [1] }] });
enforced('const', { const: { a: [1] } });
enforced('enum with its type', { type: 'string', enum: ['a', 'b'] });
refused('enum with another type', { type: 'string', enum: ['a', 1] }, both('enum'));
refused('const with another type', { type: 'string', const: 1 }, both('const'));
enforced('properties', object({ a: boolean, b: boolean }));
enforced('properties and additionalProperties', object({ a: boolean }, { additionalProperties: nothing }));
enforced('properties without a type', {
  properties: { a: boolean },
  required: ['a'],
  additionalProperties: false,
});
refused('required without properties', { type: 'object', required: ['z'] }, both('required'));
enforced('propertyNames of strings', {
  type: 'object',
  propertyNames: { type: 'string' },
  additionalProperties: nothing,
});
refused(
  'propertyNames with enum',
  { type: 'object', propertyNames: { enum: ['aa', 'bb'] }, additionalProperties: boolean },
  { 'llama-server': 'propertyNames' },
);
refused(
  'propertyNames with properties',
  {
    type: 'object',
    properties: { a: boolean },
    propertyNames: { type: 'string' },
    additionalProperties: boolean,
  },
  { vllm: 'propertyNames' },
);
enforced('items', { type: 'array', items: boolean, maxItems: 2 });
enforced('minItems', { type: 'array', items: nothing, minItems: 2, maxItems: 2 });
refused('minItems without items', { type: 'array', minItems: 2, maxItems: 2 }, both('minItems'));
refused('items: true', { type: 'array', items: true, minItems: 1, maxItems: 1 }, { 'llama-server': 'items' });
enforced('prefixItems', { type: 'array', prefixItems: [boolean, nothing] });
refused(
  'prefixItems and items: false',
  { type: 'array', prefixItems: [boolean], items: false },
  { 'llama-server': 'items' },
);
refused(
  'prefixItems and items',
  { type: 'array', prefixItems: [boolean], items: nothing },
  { 'llama-server': 'items' },
);
refused(
  'prefixItems and a smaller maxItems',
  { type: 'array', prefixItems: [boolean, nothing], maxItems: 1 },
  both('maxItems'),
);
enforced('minLength and maxLength', { type: 'string', minLength: 3, maxLength: 4 });
enforced('maxLength 0', { type: 'string', maxLength: 0 });
refused('maxLength without a type', { maxLength: 2 }, { vllm: 'maxLength' });
refused('minimum without a type', { minimum: 10, maximum: 12 }, both('minimum'));

for (const text of [
  '^[ab]{3}$',
  '^a{1,2}b$',
  '^a{2,}b$',
  '^ab?c*d+$',
  '^(yes|no)$',
  '^(?:ab|c){2}$',
  '^(a|b(c|d))$',
  '^[0-9]{3}-[0-9]{4}$',
  '^#[0-9a-fA-F]{6}$',
  '^a\\.b\\+\\$\\^\\*\\?$',
  '^\\(\\[\\{\\|\\}\\]\\)$',
  '^[a-c_-]{2}$',
  '^[a\\-b]{2}$',
  '^[a\\]]{2}$',
  '^[a.^]{2}$',
  '^\\u0041\\x42$',
  '^[à-ü]{2}$',
  '^[😀-😂]$',
  '^a b/é%$',
  '^$',
]) {
  enforced(`pattern ${text}`, pattern(text));
}
for (const text of [
  '[ab]{3}',
  '^[ab]{3}',
  '[ab]{3}$',
  '^\\d{3}$',
  '^\\w{3}$',
  '^a\\sb$',
  '^\\D{3}$',
  '^[\\da]{2}$',
  '^...$',
  '^[^a-z]{3}$',
  '^a\\/b$',
  '^[a\\.]{2}$',
  '^a+?b$',
  '^(?<x>a|b)$',
]) {
  refused(`pattern ${text}`, pattern(text), { 'llama-server': 'pattern' });
}
for (const text of [
  '^(?=a)[ab]{3}$',
  '^(?!a)[ab]{3}$',
  '^\\p{Lu}{2}$',
  '^[\\p{Lu}]{2}$',
  '^\\bab\\b$',
  '^(a|b)\\1$',
  '^a\\nb$',
  '^"\\\\"$',
  '^a"b$',
  '^a$|^b$',
  '^(a$)$',
  '^a{b$',
  '^a{,2}$',
]) {
  refused(`pattern ${text}`, pattern(text), both('pattern'));
}
refused('pattern with maxLength', { ...pattern('^[ab]+$'), maxLength: 4 }, both('pattern'));
refused('pattern with minLength', { ...pattern('^[ab]*$'), minLength: 4 }, both('pattern'));

for (const format of ['date', 'time', 'date-time', 'uuid'])
  enforced(`format ${format}`, { type: 'string', format });
for (const format of ['duration', 'email', 'ipv4', 'ipv6', 'hostname', 'uri']) {
  refused(`format ${format}`, { type: 'string', format }, { 'llama-server': 'format' });
}
refused('format unknown', { type: 'string', format: 'nonsense' }, both('format'));
refused('format with maxLength', { type: 'string', format: 'email', maxLength: 8 }, both('format'));

enforced('bounds of an integer', { type: 'integer', minimum: -12, maximum: -10 });
enforced('exclusive bounds of an integer', { type: 'integer', exclusiveMinimum: 10, exclusiveMaximum: 13 });
refused(
  'inclusive and exclusive bounds',
  { type: 'integer', minimum: 5, exclusiveMinimum: 8, maximum: 10 },
  { 'llama-server': 'exclusiveMinimum' },
);
refused(
  'fractional bounds of an integer',
  { type: 'integer', minimum: 10.5, maximum: 12.5 },
  both('minimum'),
);
refused('bounds beyond 2^53', { type: 'integer', minimum: 1e30 }, both('minimum'));
refused('bounds of a number', { type: 'number', minimum: 10, maximum: 12 }, { 'llama-server': 'minimum' });
refused(
  'small bounds of a number',
  { type: 'number', exclusiveMinimum: 0.25, maximum: 0.5 },
  { 'llama-server': 'maximum' },
);

enforced('anyOf', { anyOf: [boolean, { const: 'x' }] });
enforced('oneOf', { oneOf: [object({ t: { const: 'a' } }), object({ t: { const: 'b' } })] });
refused('allOf of one', { allOf: [boolean] }, { 'llama-server': 'allOf' });
refused(
  'allOf of two',
  {
    allOf: [
      { type: 'string', minLength: 3 },
      { type: 'string', maxLength: 4 },
    ],
  },
  both('allOf'),
);
enforced('$ref', object({ a: { $ref: '#/$defs/x y' } }, { $defs: { 'x y': { enum: ['r'] } } }));
enforced(
  '$ref to definitions',
  object({ a: { $ref: '#/definitions/x' } }, { definitions: { x: { enum: ['r'] } } }),
);
enforced('recursive $ref', {
  $ref: '#/$defs/n',
  $defs: { n: object({ c: { anyOf: [nothing, { $ref: '#/$defs/n' }] } }) },
});
refused('$ref to the root', object({ a: { anyOf: [nothing, { $ref: '#' }] } }), { 'llama-server': '$ref' });
refused(
  '$ref with an escape',
  object({ a: { $ref: '#/$defs/x~1y' } }, { $defs: { 'x/y': { enum: ['r'] } } }),
  both('$ref'),
);
enforced('annotations', {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: 't',
  description: 'd',
  default: 'x',
  examples: ['a'],
  $comment: 'c',
  type: 'string',
  maxLength: 2,
});

export const SCHEMA_CASES: readonly SchemaCase[] = cases;
