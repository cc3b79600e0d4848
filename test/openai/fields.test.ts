import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DIALECTS } from '../../src/generation.ts';
import type { Field, FieldSchema } from '../../src/openai/field.ts';
import { FIELDS } from '../../src/openai/fields.ts';
import { refuseUnsupported } from '../../src/openai/honoured.ts';
import { CALLER, chat, parse, refuses } from './samples.ts';

/** The body that gives one field one value, and what else it needs to be heard. */
function bodyWith(field: Field, value: unknown): object {
  const names = field.path.split('.');
  const [first = '', second] = names;
  if (first === 'messages[]' && second !== undefined) {
    return { messages: [{ role: 'assistant', content: 'x', [second]: value }] };
  }
  if (second !== undefined) return { [first]: { [second]: value } };
  return field.path === 'top_logprobs' ? { logprobs: true, top_logprobs: value } : { [first]: value };
}

const paramOf = (field: Field): string => field.path.replace('[]', '[0]');
const options = (field: Field) => ({ ...CALLER, internal: field.internal });

/** Values just in and just out of the bounds that a schema states. */
function edges(schema: FieldSchema): { inside: unknown[]; outside: unknown[] } {
  const step = schema.type === 'integer' ? 1 : 1e-9;
  // Beyond 2^53 the next number is further away than 1.
  const past = (bound: number): number => Math.max(step, Math.abs(bound) * 1e-15);
  const { minimum, maximum, exclusiveMinimum, minLength, maxLength } = schema;
  const edges: [inside: unknown, outside: unknown][] = [];
  if (minimum !== undefined) edges.push([minimum, minimum - past(minimum)]);
  if (maximum !== undefined) edges.push([maximum, maximum + past(maximum)]);
  if (exclusiveMinimum !== undefined) edges.push([exclusiveMinimum + step, exclusiveMinimum]);
  if (minLength) edges.push(['x'.repeat(minLength), 'x'.repeat(minLength - 1)]);
  // JSON Schema counts code points; an emoji is two UTF-16 units.
  for (const character of maxLength === undefined ? [] : ['x', '😀']) {
    edges.push([character.repeat(maxLength ?? 0), character.repeat((maxLength ?? 0) + 1)]);
  }
  return { inside: edges.map(([inside]) => inside), outside: edges.map(([, outside]) => outside) };
}

const WRONG: Readonly<Record<string, readonly unknown[]>> = {
  number: ['1', true, [], {}],
  integer: ['1', true, [], {}, 1.5],
  boolean: ['true', 1, [], {}],
  string: [1, true, [], {}],
};

for (const kind of ['chat', 'text'] as const) {
  for (const field of FIELDS.filter((candidate) => candidate.kinds.includes(kind))) {
    test(`${kind}: ${field.path} passes within its bounds and is refused by name outside them`, () => {
      const given = (value: unknown) => parse(kind, bodyWith(field, value), options(field));
      const { inside, outside } = edges(field.schema);
      for (const value of inside) given(value);
      for (const value of outside) refuses(() => given(value), 'invalid_value', paramOf(field));
      for (const value of WRONG[field.type] ?? [])
        refuses(() => given(value), 'invalid_type', paramOf(field));
      for (const value of field.neutral) given(value);
      if (field.required) refuses(() => given(null), 'missing_required_parameter', paramOf(field));
      else assert.deepEqual(given(null), given(undefined), 'null is the same as absent');
      if (field.use === 'hint') for (const value of [1, 'x', [], { a: 1 }, true]) given(value);
      if (field.use === 'refused') refuses(() => given({ x: 1 }), 'unsupported_parameter', paramOf(field));
      if (field.internal)
        refuses(() => parse(kind, bodyWith(field, true)), 'unsupported_parameter', field.path);
    });
  }

  test(`${kind}: an unknown field is refused by name unless it is null`, () => {
    refuses(() => parse(kind, { max_token: 1 }), 'unsupported_parameter', 'max_token');
    refuses(() => parse(kind, JSON.parse('{"__proto__":1}') as object), 'unsupported_parameter', '__proto__');
    refuses(() => parse(kind, { stream_options: { x: 1 } }), 'unsupported_parameter', 'stream_options.x');
    assert.ok(parse(kind, { max_token: null }));
  });
}

test('every row says what documents need of it', () => {
  for (const field of FIELDS) {
    assert.match(field.description, /\.$/, field.path);
    assert.ok(field.type.length > 0 && field.default.length > 0, field.path);
    if (field.honouredBy !== 'all') assert.ok(field.honouredBy.includes('sluice'), field.path);
  }
  assert.equal(new Set(FIELDS.map(({ path, kinds }) => `${kinds.join()} ${path}`)).size, FIELDS.length);
});

test('rows of one name are honoured alike, because a request notes the name alone', () => {
  for (const field of FIELDS) {
    const twin = FIELDS.find(({ path }) => path === field.path);
    assert.deepEqual(twin?.honouredBy, field.honouredBy, field.path);
  }
});

test('a field that a dialect does not honour is refused by name, and one that all honour passes', () => {
  const { request } = chat();
  for (const { path, honouredBy } of FIELDS) {
    for (const dialect of DIALECTS) {
      const check = () => refuseUnsupported({ request, used: [path] }, [dialect]);
      if (honouredBy === 'all' || honouredBy.includes(dialect)) check();
      else refuses(check, 'unsupported_parameter', path);
    }
  }
  refuses(
    () => refuseUnsupported({ request, used: ['top_k'] }, ['vllm', 'tgi']),
    'unsupported_parameter',
    'top_k',
  );
  refuseUnsupported({ request, used: [] }, ['tgi']);
});
