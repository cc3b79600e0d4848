import type { ObjectSchema, Schema } from './definitions.ts';
import type { ExpectedCall, Question } from './questions.ts';

/** The relevant fields of an OpenAI response. */
export interface Answer {
  content: string | null;
  calls: readonly { name: string; arguments: string }[];
}

export interface Score {
  /** The arguments of every call are a JSON object, and the text contains no unparsed call of an offered tool. */
  parses: boolean;
  /** Every call names a tool of the request. */
  offered: boolean;
  /** The arguments of every call satisfy the schema of its tool. */
  valid: boolean;
  /** The calls or the text are as expected. */
  correct: boolean;
}

export const MEASURES = ['parses', 'offered', 'valid', 'correct'] as const;

export function score({ body, expected }: Question, { content, calls }: Answer): Score {
  const parsed = calls.map((call) => ({ name: call.name, arguments: parseObject(call.arguments) }));
  const schemas = new Map(body.tools.map((tool) => [tool.function.name, tool.function.parameters]));
  const text = content ?? '';
  const names = Array.from(text.matchAll(NAME), ([, name]) => name ?? '');
  const hasCall = CALL_TAG.test(text) || names.some((name) => schemas.has(name));
  const valid = parsed.every((call) => {
    const schema = schemas.get(call.name);
    return schema !== undefined && call.arguments !== null && satisfies(call.arguments, schema);
  });
  return {
    parses: parsed.every((call) => call.arguments !== null) && !hasCall,
    offered: parsed.every(({ name }) => schemas.has(name)),
    valid,
    correct:
      'text' in expected
        ? calls.length === 0 && expected.text.test(text) && !hasCall
        : haveSameCalls(expected.calls, parsed),
  };
}

const CALL_TAG = /<\/?tool_call>/;
/** The name in a call that the server left in the text. */
const NAME = /"name"\s*:\s*"([^"]*)"\s*,\s*"arguments"/g;

function parseObject(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

/** Checks the keywords of `Schema`. */
function satisfies(value: unknown, schema: Schema): boolean {
  switch (schema.type) {
    case 'string':
      return typeof value === 'string' && (schema.enum?.includes(value) ?? true);
    case 'integer':
      return Number.isInteger(value);
    case 'number':
    case 'boolean':
      return typeof value === schema.type;
    case 'array':
      return Array.isArray(value) && value.every((item) => satisfies(item, schema.items));
    case 'object':
      return typeof value === 'object' && value !== null && hasProperties(value, schema);
  }
}

function hasProperties(value: object, { properties, required, additionalProperties }: ObjectSchema): boolean {
  return (
    required.every((name) => Object.hasOwn(value, name)) &&
    Object.entries(value).every(([name, item]) => {
      const schema = properties[name];
      return schema === undefined ? additionalProperties !== false : satisfies(item, schema);
    })
  );
}

function haveSameCalls(
  expected: readonly ExpectedCall[],
  calls: readonly { name: string; arguments: object | null }[],
): boolean {
  const rest = [...calls];
  for (const { name, arguments: args } of expected) {
    const at = rest.findIndex((call) => call.name === name && matches(call.arguments, args));
    if (at === -1) return false;
    rest.splice(at, 1);
  }
  return rest.length === 0;
}

function matches(value: unknown, expected: unknown): boolean {
  if (expected instanceof RegExp) return typeof value === 'string' && expected.test(value);
  if (typeof expected === 'string')
    return typeof value === 'string' && value.toLowerCase() === expected.toLowerCase();
  if (typeof expected !== 'object' || expected === null) return value === expected;
  if (typeof value !== 'object' || value === null) return false;
  if (Array.isArray(expected) && (!Array.isArray(value) || value.length !== expected.length)) return false;
  return Object.entries(expected).every(([key, item]) =>
    matches((value as Record<string, unknown>)[key], item),
  );
}
