import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DIALECTS, type GenerationKind, type GenerationRequest } from '../../../src/core/generation.ts';
import {
  messageImage,
  messageToolCallId,
  toolStrict,
  topLogprobs,
  FIELDS,
} from '../../../src/protocols/openai/fields.ts';
import type { Field, FieldSchema } from '../../../src/protocols/field.ts';
import { ServiceError } from '../../../src/core/errors.ts';
import { FEATURES, type Feature } from '../../../src/core/features.ts';
import { RERANK } from '../../../src/protocols/openai/rerank.ts';
import { RERANK_FIELDS } from '../../../src/protocols/openai/rerank-fields.ts';
import { EMBEDDING_FIELDS } from '../../../src/protocols/openai/embedding-fields.ts';
import { EMBEDDINGS } from '../../../src/protocols/openai/embeddings.ts';
import { CHAT, TEXT } from '../../../src/protocols/openai/protocols.ts';
import { refuseUnsupported } from '../../../src/replicas/wire/unsupported.ts';
import { Notes } from '../../../src/core/notes.ts';
import { PIXEL } from '../../images/samples.ts';
import { CALLER, parse, refuses, withPaths } from './samples.ts';

const TOOL = { type: 'function', function: { name: 'f' } };

/** Returns a body in which the field has this value, with the fields it depends on. */
function bodyWith(field: Field, value: unknown): object {
  const names = field.path.split('.');
  const [first = '', second] = names;
  if (field === messageToolCallId && (value ?? null) !== null) {
    const id = typeof value === 'string' && value !== '' && Array.from(value).length <= 256 ? value : 'x';
    const calls = [{ id, type: 'function', function: { name: 'f', arguments: '{}' } }];
    const calling = { role: 'assistant', tool_calls: calls };
    return { messages: [calling, { role: 'tool', content: 'x', tool_call_id: value }] };
  }
  if (field === toolStrict) return { tools: [{ type: 'function', function: { name: 'f', strict: value } }] };
  if (field === messageImage)
    return { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: value }] }] };
  if (first === 'messages[]' && second !== undefined) {
    return { messages: [{ role: 'assistant', content: 'x', [second]: value }] };
  }
  if (second !== undefined) return { [first]: { [second]: value } };
  return field === topLogprobs ? { logprobs: true, top_logprobs: value } : { [first]: value };
}

const paramOf = (field: Field): string =>
  field.path.replaceAll('[]', field === messageToolCallId ? '[1]' : '[0]');

/** Returns values at the bounds of a schema and just outside. */
function edges(schema: FieldSchema): { inside: unknown[]; outside: unknown[] } {
  const step = schema.type === 'integer' ? 1 : 1e-9;
  // Beyond 2^53 the distance to the next number is more than 1.
  const distance = (bound: number): number => Math.max(step, Math.abs(bound) * 1e-15);
  const { minimum, maximum, exclusiveMinimum, minLength, maxLength } = schema;
  const edges: [inside: unknown, outside: unknown][] = [];
  if (minimum !== undefined) edges.push([minimum, minimum - distance(minimum)]);
  if (maximum !== undefined) edges.push([maximum, maximum + distance(maximum)]);
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
    test(`${kind}: ${field.path} is accepted within its bounds and refused outside`, () => {
      const parseWith = (value: unknown) => parse(kind, bodyWith(field, value));
      const { inside, outside } = edges(field.schema);
      for (const value of inside) parseWith(value);
      for (const value of outside) refuses(() => parseWith(value), 'invalid_value', paramOf(field));
      for (const value of WRONG[field.type] ?? [])
        refuses(() => parseWith(value), 'invalid_type', paramOf(field));
      for (const value of field.neutral) parseWith(value);
      if (field.required) refuses(() => parseWith(null), 'missing_required_parameter', paramOf(field));
      else if (field !== messageImage)
        assert.deepEqual(parseWith(null), parseWith(undefined), 'null is the same as absent');
      if (field.use === 'hint') for (const value of [1, 'x', [], { a: 1 }, true]) parseWith(value);
      if (field.use === 'noted') {
        const notes = new Notes();
        parse(kind, bodyWith(field, { x: 1 }), { ...CALLER, notes });
        assert.equal(notes.header(), `${paramOf(field)} ignored`);
      }
      if (field.use === 'refused')
        refuses(
          () => parseWith({ x: 1 }),
          'unsupported_parameter',
          paramOf(field),
          field.instead.join('` and `'),
        );
    });
  }

  test(`${kind}: an unknown field is ignored with a note, unless it is null or its name is misspelled`, () => {
    refuses(() => parse(kind, { max_token: 1 }), 'unsupported_parameter', 'max_token');
    for (const [fields, path] of [
      [{ top_secret_mode: 1 }, 'top_secret_mode'],
      [JSON.parse('{"__proto__":1}') as object, '__proto__'],
      [{ stream_options: { unheard_of: 1 } }, 'stream_options.unheard_of'],
    ] as const) {
      const notes = new Notes();
      parse(kind, fields, { ...CALLER, notes });
      assert.deepEqual(notes.list, [{ path, what: 'ignored (unknown field)' }]);
      const strict = { ...CALLER, notes: new Notes(true) };
      refuses(() => parse(kind, fields, strict), 'unsupported_parameter', path);
    }
    assert.ok(parse(kind, { max_token: null, top_secret_mode: null }, { ...CALLER, notes: new Notes(true) }));
  });
}

test('every field has a description, a type and a default', () => {
  for (const field of FIELDS) {
    assert.match(field.description, /\.$/, field.path);
    assert.ok(field.type.length > 0 && field.default.length > 0, field.path);
  }
  assert.equal(new Set(FIELDS.map(({ path, kinds }) => `${kinds.join()} ${path}`)).size, FIELDS.length);
});

/** Requests that ask for one feature each, besides what it requires. */
const ASKING: Record<Feature, GenerationRequest> = {
  severalPrompts: parse('text', { prompt: ['a', 'b'] }),
  topK: parse('chat', { top_k: 5 }),
  minP: parse('chat', { min_p: 0.5 }),
  seed: parse('chat', { seed: 0 }),
  presencePenalty: parse('text', { presence_penalty: 1 }),
  frequencyPenalty: parse('chat', { frequency_penalty: -1 }),
  repetitionPenalty: parse('chat', { repetition_penalty: 2 }),
  logitBias: parse('chat', { logit_bias: { 5: 1 } }),
  choices: parse('text', { n: 2 }),
  logprobs: parse('text', { logprobs: 0 }),
  topLogprobs: parse('chat', { logprobs: true, top_logprobs: 1 }),
  echo: parse('text', { echo: true }),
  chatFormat: parse('chat', { response_format: { type: 'json_object' } }),
  textFormat: parse('text', { response_format: { type: 'json_object' } }),
  earlierCalls: parse('chat', {
    messages: [
      {
        role: 'assistant',
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'a', content: 'x' },
    ],
  }),
  tools: parse('chat', { tools: [TOOL] }),
  strictTools: parse('chat', {
    tools: [{ ...TOOL, function: { ...TOOL.function, strict: true, parameters: { type: 'object' } } }],
  }),
  toolChoice: parse('chat', { tools: [TOOL], tool_choice: 'required' }),
  singleCalls: parse('chat', { tools: [TOOL], parallel_tool_calls: false }),
  reasoningEffort: parse('chat', { reasoning_effort: 'low' }),
  reasoningBudget: parse('chat', { reasoning: { max_tokens: 5 } }),
  images: parse('chat', {
    messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: PIXEL } }] }],
  }),
  templateVariables: parse('chat', { chat_template_kwargs: { a: 1 } }),
  embeddings: parseEmbedding({ input: 'a' }),
  tokenInputs: parseEmbedding({ input: [1, 2] }),
  rerank: RERANK.parse({ model: 'ns/m', query: 'a', documents: ['b'] }, CALLER).generation,
};

function parseEmbedding(body: object): GenerationRequest {
  return EMBEDDINGS.parse({ model: 'ns/m', ...body }, CALLER).generation;
}

const PROTOCOL_OF = { chat: CHAT, text: TEXT, embedding: EMBEDDINGS, rerank: RERANK };
const FIELDS_OF: Partial<Record<GenerationKind, readonly Field[]>> = {
  embedding: EMBEDDING_FIELDS,
  rerank: RERANK_FIELDS,
};

test('a feature that a dialect does not support is refused with the path of its field', () => {
  for (const [feature, request] of Object.entries(ASKING)) {
    const { servers, isUsed, ...rest } = FEATURES[feature as Feature];
    assert.ok(isUsed(request), feature);
    const protocol = PROTOCOL_OF[request.kind];
    const paths = (Object.keys(FEATURES) as Feature[])
      .filter((each) => FEATURES[each].isUsed(request))
      .map((each) => protocol.paramOf(each));
    for (const dialect of DIALECTS) {
      const check = () => refuseUnsupported(withPaths(request), [dialect], protocol);
      if ('isOptional' in rest || servers.some((server) => server === dialect)) check();
      else
        assert.throws(check, (error) => error instanceof ServiceError && paths.includes(error.param ?? ''));
    }
  }
  const asking = ASKING.topK;
  refuses(
    () => refuseUnsupported(withPaths(asking), ['vllm', 'tgi'], CHAT),
    'unsupported_parameter',
    'top_k',
  );
  refuseUnsupported(withPaths(parse('chat', {})), ['tgi'], CHAT);
});

test('every feature has a field in each protocol that can ask for it', () => {
  for (const feature of Object.keys(FEATURES) as Feature[]) {
    const { kind } = ASKING[feature];
    const path = PROTOCOL_OF[kind].paramOf(feature);
    const fields = FIELDS_OF[kind] ?? FIELDS.filter((each) => each.kinds.includes(kind));
    assert.ok(
      fields.some((field) => field.path === path),
      feature,
    );
  }
});
