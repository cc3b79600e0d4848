import * as fc from '../../support/fast-check.ts';

export type Schema = boolean | { [keyword: string]: unknown };

/**
 * Whether `value` satisfies `schema`. `closed` applies the rules of the grammars: by default, only the properties in
 * `properties` and the items in `prefixItems` are allowed, required properties are in order, additional properties come last and
 * have names without escapes, and the keywords of a schema without `type` determine its type.
 */
export function satisfies(value: unknown, schema: Schema, root: Schema, closed: boolean): boolean {
  if (typeof schema === 'boolean') return schema;
  const holds = (inner: unknown, of: unknown): boolean => satisfies(inner, of as Schema, root, closed);
  if (typeof schema['$ref'] === 'string') {
    const [, group = '', name = ''] = schema['$ref'].split('/');
    return holds(value, (root as Record<string, Record<string, Schema>>)[group]?.[name] ?? root);
  }
  for (const union of [schema['anyOf'], schema['oneOf'], schema['allOf']]) {
    if (Array.isArray(union)) return union.some((member) => holds(value, member));
  }
  if ('const' in schema) return same(value, schema['const']);
  const types = typesOf(schema, closed);
  if (types !== null && !types.some((type) => isOf(value, type))) return false;
  if (Array.isArray(schema['enum'])) return schema['enum'].some((allowed) => same(value, allowed));
  if (typeof value === 'number') return numberHolds(value, schema);
  if (typeof value === 'string') return stringHolds(value, schema);
  if (Array.isArray(value)) {
    const prefix = (schema['prefixItems'] ?? []) as Schema[];
    const items = (schema['items'] ?? !(closed && prefix.length > 0)) as Schema;
    const count = value.length;
    if (count < Number(schema['minItems'] ?? 0) || count > Number(schema['maxItems'] ?? Infinity))
      return false;
    return value.every((item, i) => holds(item, prefix[i] ?? items));
  }
  if (typeof value === 'object' && value !== null) {
    const properties = (schema['properties'] ?? {}) as Record<string, Schema>;
    const extras = (schema['additionalProperties'] ?? !(closed && 'properties' in schema)) as Schema;
    const required = (schema['required'] ?? []) as string[];
    if (!required.every((name) => Object.hasOwn(value, name))) return false;
    const names = (schema['propertyNames'] as { enum?: string[] } | undefined)?.enum;
    if (names !== undefined && !Object.keys(value).every((name) => names.includes(name))) return false;
    const order = [...new Set([...Object.keys(properties), ...(names ?? []), ...required])];
    if (closed && !inOrder(Object.keys(value), order, required)) return false;
    return Object.entries(value).every(([name, inner]) =>
      // Required names that are not declared are allowed by default.
      holds(
        inner,
        properties[name] ?? (required.includes(name) ? (schema['additionalProperties'] ?? true) : extras),
      ),
    );
  }
  return true;
}

const NAMES = ['a', 'ab', 'b', 'say "x"', 'é'];
/** Values for enumerations and for changes of samples. */
export const LITERAL = fc.constantFrom<unknown>(
  '',
  'a',
  'q"\\\n',
  0,
  -3,
  12,
  2.5,
  true,
  false,
  null,
  [],
  [1, 'a'],
  { a: 1 },
);
const PATTERNS = [
  '^[a-c]{2,4}$',
  'ab|^c+$',
  '^(x|y\\d)*[^z"]$',
  '^\\w+@\\w+\\.(com|org)$',
  '',
  '^a?b?$',
  '\\\\"',
];

/** Schemas of the supported subset, most of them satisfiable. */
export const schemas: fc.Arbitrary<Schema> = fc
  .letrec<{ schema: Schema }>((tie) => ({
    schema: fc.oneof(
      { maxDepth: 4, depthSize: 'small' },
      fc.constantFrom<Schema>(
        true,
        {},
        { type: 'string' },
        { type: 'boolean' },
        { type: ['null', 'integer'] },
      ),
      strings(),
      numbers(),
      fc.array(LITERAL, { minLength: 1, maxLength: 4 }).map((values) => ({ enum: values })),
      LITERAL.map((value) => ({ const: value })),
      fc.constant({ $ref: '#/$defs/list' }),
      arrays(tie('schema')),
      objects(tie('schema')),
      fc.array(tie('schema'), { minLength: 1, maxLength: 3 }).map((members) => ({ anyOf: members })),
      tie('schema').map((member) => ({ allOf: [member], description: 'as that' })),
    ),
  }))
  .schema.map((schema) => ({
    $defs: {
      list: {
        type: 'object',
        properties: { v: { type: 'integer' }, next: { anyOf: [{ $ref: '#/$defs/list' }, { type: 'null' }] } },
        required: ['v', 'next'],
      },
    },
    allOf: [schema],
  }));

function strings(): fc.Arbitrary<Schema> {
  return fc.oneof(
    fc
      .tuple(fc.nat(3), fc.nat(600))
      .map(([min, more]) => ({ type: 'string', minLength: min, maxLength: min + more })),
    fc.nat(4).map((minLength) => ({ minLength })),
    fc.constantFrom('date', 'time', 'date-time', 'uuid').map((format) => ({ type: 'string', format })),
    fc.constantFrom(...PATTERNS).map((pattern) => ({ type: 'string', pattern })),
  );
}

function numbers(): fc.Arbitrary<Schema> {
  const whole = fc.oneof(fc.integer({ min: -30, max: 30 }), fc.integer({ min: -12_345, max: 12_345 }));
  const low = fc.constantFrom('minimum', 'exclusiveMinimum');
  const high = fc.constantFrom('maximum', 'exclusiveMaximum');
  return fc.oneof(
    fc
      .tuple(fc.constantFrom('integer', 'number'), whole, fc.nat(300), low, high)
      .map(([type, from, width, lower, upper]) => ({
        type,
        [lower]: from,
        [upper]: from + width + 2,
      })),
    fc
      .tuple(fc.constantFrom('integer', 'number'), whole, fc.oneof(low, high))
      .map(([type, value, keyword]) => ({
        type,
        [keyword]: value,
      })),
  );
}

function arrays(item: fc.Arbitrary<Schema>): fc.Arbitrary<Schema> {
  const counts = fc.tuple(fc.nat(3), fc.option(fc.nat(3), { nil: undefined })).map(([min, more]) => ({
    minItems: min,
    ...(more === undefined ? {} : { maxItems: min + more }),
  }));
  return fc
    .tuple(
      counts,
      fc.option(item, { nil: undefined }),
      fc.option(fc.array(item, { minLength: 3, maxLength: 4 }), { nil: undefined }),
    )
    .map(([bounds, items, prefixItems]) => ({
      type: 'array',
      ...bounds,
      ...(items === undefined ? {} : { items }),
      ...(prefixItems === undefined ? {} : { prefixItems }),
    }));
}

function objects(member: fc.Arbitrary<Schema>): fc.Arbitrary<Schema> {
  const extras = fc.option(fc.oneof(fc.boolean(), member), { nil: undefined });
  const propertyNames = fc.constantFrom<Schema | undefined>(
    undefined,
    { type: 'string' },
    { enum: NAMES.slice(0, 4) },
  );
  const properties = fc.dictionary(fc.constantFrom(...NAMES), member, { maxKeys: 4 });
  return fc
    .tuple(properties, fc.subarray(NAMES), extras, propertyNames)
    .map(([properties, required, additionalProperties, propertyNames]) => ({
      type: 'object',
      properties,
      ...(propertyNames === undefined ? {} : { propertyNames }),
      required: additionalProperties === undefined ? required.filter((name) => name in properties) : required,
      ...(additionalProperties === undefined ? {} : { additionalProperties }),
    }));
}

/** `declared` lists the names of properties, and `required` those of them that cannot be missing. */
function inOrder(
  names: readonly string[],
  declared: readonly string[],
  required: readonly string[],
): boolean {
  const plain = (name: string): boolean => JSON.stringify(name) === `"${name}"`;
  const known = names.filter((name) => declared.includes(name));
  const extras = names.slice(known.length);
  if (extras.some((name) => declared.includes(name) || (declared.length > 0 && !plain(name)))) return false;
  const isSorted = (list: readonly string[]): boolean =>
    list.every((name, i) => i === 0 || declared.indexOf(list[i - 1] ?? '') < declared.indexOf(name));
  const firstOptional = declared.findIndex((name) => !required.includes(name));
  const leading = firstOptional === -1 ? declared : declared.slice(0, firstOptional);
  const optional = declared.filter((name) => !required.includes(name));
  const states = (declared.length - leading.length - optional.length + 1) * 2 ** optional.length;
  if (states > 32) return isSorted(known);
  const startsWithLeading = leading.every((name, i) => known[i] === name);
  return startsWithLeading && isSorted(known.filter((name) => required.includes(name)));
}

function typesOf(schema: Record<string, unknown>, closed: boolean): string[] | null {
  if (schema['type'] !== undefined) return [schema['type']].flat() as string[];
  if (!closed) return null;
  return 'minLength' in schema ? ['string'] : null;
}

function isOf(value: unknown, type: string): boolean {
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value);
  if (type === 'integer') return Number.isInteger(value);
  return typeof value === type;
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function numberHolds(value: number, schema: Record<string, unknown>): boolean {
  return (
    value >= Number(schema['minimum'] ?? -Infinity) &&
    value <= Number(schema['maximum'] ?? Infinity) &&
    (schema['exclusiveMinimum'] === undefined || value > Number(schema['exclusiveMinimum'])) &&
    (schema['exclusiveMaximum'] === undefined || value < Number(schema['exclusiveMaximum']))
  );
}

function stringHolds(value: string, schema: Record<string, unknown>): boolean {
  const length = Array.from(value).length;
  if (length < Number(schema['minLength'] ?? 0) || length > Number(schema['maxLength'] ?? Infinity))
    return false;
  const { pattern } = schema;
  if (typeof pattern === 'string' && !new RegExp(pattern, 'u').test(value)) return false;
  switch (schema['format']) {
    case 'date':
      return isDate(value);
    case 'time':
      return isTime(value);
    case 'date-time':
      return isDate(value.slice(0, 10)) && value[10] === 'T' && isTime(value.slice(11));
    case 'uuid':
      return /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(value);
    default:
      return true;
  }
}

function isDate(text: string): boolean {
  const [, year, month, day] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text) ?? [];
  if (year === undefined) return false;
  const date = new Date(0);
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day));
  return date.getUTCMonth() === Number(month) - 1 && date.getUTCDate() === Number(day);
}

function isTime(text: string): boolean {
  return /^([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/.test(text);
}
