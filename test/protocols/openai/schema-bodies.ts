import * as fc from '../../support/fast-check.ts';
import { PIXEL } from '../../images/samples.ts';

export type Schema = Readonly<Record<string, unknown>>;
export type Schemas = Readonly<Record<string, Schema>>;
type Body = Record<string, unknown>;

/** Generates JSON values from the schemas of the OpenAPI document. Supports the keywords that they use. */
export class SchemaBodies {
  readonly #schemas: Schemas;
  readonly #isValid: (schema: Schema, value: unknown) => boolean;

  /** `schemas`: targets of references. `isValid` checks a value against a schema. */
  constructor(schemas: Schemas, isValid: (schema: Schema, value: unknown) => boolean) {
    this.#schemas = schemas;
    this.#isValid = isValid;
  }

  /** Returns an arbitrary of valid values. */
  of(schema: Schema): fc.Arbitrary<unknown> {
    if (typeof schema.$ref === 'string')
      return this.of(this.#schemas[schema.$ref.split('/').at(-1) ?? ''] ?? {});
    if ('const' in schema) return fc.constant(schema.const);
    if (Array.isArray(schema.enum)) return fc.constantFrom(...(schema.enum as unknown[]));
    const alternatives = (schema.anyOf ?? schema.oneOf) as readonly Schema[] | undefined;
    if (alternatives === undefined) return this.#typed(schema);
    if (schema.properties === undefined) return fc.oneof(...alternatives.map((one) => this.of(one)));
    // The alternatives of an object restrict its properties.
    return fc.oneof(...alternatives.map((one) => this.#object(schema, one)));
  }

  #typed(schema: Schema): fc.Arbitrary<unknown> {
    const { minimum, maximum, exclusiveMinimum, minItems, maxItems } = schema as Record<
      string,
      number | undefined
    >;
    switch (schema.type ?? (schema.pattern === undefined ? undefined : 'string')) {
      case 'string':
        return this.#text(schema).filter((text) => this.#isValid(schema, text));
      case 'integer':
        return fc.maxSafeInteger().map((value) => clamp(value, minimum, maximum));
      case 'number':
        return fc
          .double({ noNaN: true, noDefaultInfinity: true })
          .map((value) => clamp(value, minimum ?? exclusiveMinimum, maximum))
          .map((value) => (value === exclusiveMinimum ? value + 0.5 : value));
      case 'boolean':
        return fc.boolean();
      case 'null':
        return fc.constant(null);
      case 'array': {
        const length = { minLength: minItems ?? 0, maxLength: Math.min(maxItems ?? MAX_ITEMS, MAX_ITEMS) };
        return fc.array(this.of((schema.items ?? {}) as Schema), length);
      }
      case 'object':
        return schema.properties === undefined ? this.#map(schema) : this.#object(schema, {});
      default:
        return fc.constantFrom<unknown>('x', 1, null, true, [1], { type: 'ephemeral' });
    }
  }

  #text({ pattern, minLength = 0, maxLength = 100 }: Schema): fc.Arbitrary<string> {
    if (typeof pattern === 'string') return fc.stringMatching(new RegExp(pattern, 'u'));
    return fc.string({
      unit: 'grapheme',
      minLength: Number(minLength),
      maxLength: Math.min(Number(maxLength), Number(minLength) + 20),
    });
  }

  #map(schema: Schema): fc.Arbitrary<unknown> {
    const values = (schema.additionalProperties ?? {}) as Schema;
    const names = schema.propertyNames as Schema | undefined;
    return fc
      .dictionary(
        (names === undefined ? fc.string() : this.of(names)) as fc.Arbitrary<string>,
        this.of(values),
        { maxKeys: MAX_ITEMS, noNullPrototype: true },
      )
      .filter((value) => this.#isValid(schema, value));
  }

  /** `restriction` has further `required` and `properties`. */
  #object(schema: Schema, restriction: Schema): fc.Arbitrary<unknown> {
    const properties = Object.entries(schema.properties as Schemas);
    const restricted = (restriction.properties ?? {}) as Schemas;
    const required = [...namesOf(schema), ...namesOf(restriction)];
    const model = properties.map(([name, property]) => {
      const further = restricted[name];
      const values = this.of(property);
      return [name, further === undefined ? values : values.filter((value) => this.#isValid(further, value))];
    });
    return fc.record(Object.fromEntries(model) as Record<string, fc.Arbitrary<unknown>>, {
      requiredKeys: required,
      noNullPrototype: true,
    });
  }
}

/** Maximum elements and members that are generated, to keep bodies small. */
const MAX_ITEMS = 3;

function namesOf({ required }: Schema): string[] {
  return Array.isArray(required) ? (required as string[]) : [];
}

function clamp(value: number, minimum = -Infinity, maximum = Infinity): number {
  return Math.min(Math.max(value, minimum), maximum);
}

/** Makes a body follow the rules that a schema cannot express: `RULES` in `schema.test.ts`. */
export function withRules(body: Body): Body {
  const functions = ((body.tools ?? []) as Tool[]).filter(({ type }) => type === 'function');
  const tools = uniqueBy(functions, (tool) => tool.function.name).map(withSupportedSchema);
  const choice = withOfferedNames(
    body.tool_choice,
    tools.map((tool) => tool.function.name),
  );
  const messages = (body.messages as WireMessage[])
    .filter(({ role }) => role !== 'tool')
    .map(withImages)
    .flatMap(withResults);
  const first = { role: 'user', content: 'Hi' };
  return {
    ...body,
    messages: messages.length === 0 ? [first] : messages,
    ...('tools' in body && { tools }),
    ...('tool_choice' in body && { tool_choice: choice }),
    ...('response_format' in body && { response_format: withSimpleSchema(body.response_format) }),
  };
}

interface Tool {
  type: string;
  function: { name: string; strict?: boolean | null; parameters?: unknown };
}

interface WireCall {
  id: string;
  function: { arguments: string };
}

interface WireMessage {
  role: string;
  content?: string | { type: string }[] | null;
  tool_calls?: WireCall[] | null;
}

/** Replaces the images of a message of the user, and those of another one with text. */
function withImages(message: WireMessage): WireMessage {
  if (!Array.isArray(message.content)) return message;
  const image =
    message.role === 'user' ? { type: 'image_url', image_url: { url: PIXEL } } : { type: 'text', text: '' };
  return { ...message, content: message.content.map((part) => (part.type === 'image_url' ? image : part)) };
}

function withSupportedSchema(tool: Tool): Tool {
  if (tool.function.strict !== true) return tool;
  return { ...tool, function: { ...tool.function, parameters: { type: 'object', properties: {} } } };
}

function withResults(message: WireMessage): object[] {
  const calls = uniqueBy(message.tool_calls ?? [], ({ id }) => id).map((call) => ({
    ...call,
    function: { ...call.function, arguments: '{"a":1}' },
  }));
  if (calls.length === 0) return [message];
  return [
    { ...message, tool_calls: calls },
    ...calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'x' })),
  ];
}

interface Choice {
  type?: string;
  function?: { name: string };
  allowed_tools?: { mode: string; tools: unknown[] };
}

function withOfferedNames(value: unknown, [name]: readonly string[]): unknown {
  if (name === undefined) return value === 'none' ? value : 'auto';
  const named = { type: 'function', function: { name } };
  const choice = value as Choice | string | null | undefined;
  if (typeof choice !== 'object' || choice === null) return choice;
  if (choice.allowed_tools === undefined) return named;
  return { ...choice, allowed_tools: { ...choice.allowed_tools, tools: [named] } };
}

function withSimpleSchema(value: unknown): unknown {
  const format = value as { json_schema?: object } | null | undefined;
  return format?.json_schema === undefined
    ? format
    : { ...format, json_schema: { ...format.json_schema, schema: true } };
}

function uniqueBy<T>(values: readonly T[], key: (value: T) => unknown): T[] {
  return [...new Map(values.map((value) => [key(value), value])).values()];
}

/** Generates a body with one change: a member or an element that is removed, added, or replaced. */
export function mutations(body: fc.Arbitrary<Body>): fc.Arbitrary<Body> {
  return fc
    .tuple(body, fc.nat(), fc.oneof(fc.constant(REMOVED), fc.constant(ADDED), OTHER_VALUES))
    .map(([original, position, change]) => {
      // A deep copy, so that no value is shared and changes in several places.
      const copy = JSON.parse(JSON.stringify(original)) as Body;
      const places = placesIn(copy);
      const place = places[position % places.length];
      if (place === undefined) return copy;
      const { parent, key } = place;
      if (Array.isArray(parent)) {
        if (change === ADDED) parent.push(1);
        else if (change === REMOVED) parent.splice(Number(key), 1);
        else parent[Number(key)] = change;
      } else if (change === ADDED) parent.unknown_field = 1;
      else if (change === REMOVED) delete parent[key];
      else parent[key] = change;
      return copy;
    });
}

const REMOVED = Symbol('removed');
const ADDED = Symbol('added');
const OTHER_VALUES = fc.constantFrom<unknown>(
  null,
  0,
  1.5,
  -1,
  true,
  '',
  'x',
  'custom',
  [],
  [1],
  {},
  { type: 'x' },
);

interface Place {
  parent: Body | unknown[];
  key: string;
}

/** Returns the members and elements of a value, except those that may have any value. */
function placesIn(value: unknown): Place[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) => [
    { parent: value as Place['parent'], key },
    ...(FREE.has(key) ? [] : placesIn(member)),
  ]);
}

/** Members that may have any content. */
const FREE: ReadonlySet<string> = new Set(['parameters', 'schema', 'chat_template_kwargs', 'metadata']);
