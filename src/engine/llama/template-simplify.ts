import type { Message, Tool } from '../../generation.ts';

/**
 * Replaces null arguments with the text `null`, for templates that fail with null because they handle each value as
 * text.
 */
export function withoutNullArguments(message: Message): Message {
  if (message.role !== 'assistant') return message;
  const toolCalls = message.toolCalls.map((call) => {
    const values = parsedArguments(call.arguments);
    if (!isObject(values)) return call;
    const entries = Object.entries(values).map(([name, value]) => [name, value === null ? 'null' : value]);
    return { ...call, arguments: JSON.stringify(Object.fromEntries(entries)) };
  });
  return { ...message, toolCalls };
}

/** Parses the arguments of a call. Returns the text itself if it is not a JSON object. */
export function parsedArguments(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : text;
  } catch {
    return text;
  }
}

/** Simplifies the schema of a tool's arguments. */
export function withSimpleSchema(tool: Tool): Tool {
  return { ...tool, parameters: simplifiedSchema(tool.parameters) };
}

/**
 * Returns a schema for templates that fail with the original one: each property has exactly one type, and null values
 * such as `default: null` are removed. Only changes the prompt, not the grammar of the arguments.
 */
function simplifiedSchema(schema: unknown): Record<string, unknown> {
  const keywords = isObject(schema) ? schema : {};
  const entries = Object.entries(keywords).flatMap(([name, value]): [string, unknown][] => {
    if (value === null) return [];
    if (name === 'properties' && isObject(value)) {
      const properties = Object.entries(value).map(([key, item]) => [key, simplifiedSchema(item)]);
      return [[name, Object.fromEntries(properties)]];
    }
    return [[name, name === 'items' ? simplifiedSchema(value) : value]];
  });
  return { ...Object.fromEntries(entries), type: typeOf(keywords) ?? 'string' };
}

/** Returns the first type other than `null`, or null if none is known. */
function typeOf({
  type,
  enum: values,
  anyOf,
  oneOf,
  properties,
  items,
}: Record<string, unknown>): string | null {
  const types: unknown[] = Array.isArray(type) ? type : [type];
  for (const alternatives of [anyOf, oneOf]) {
    if (Array.isArray(alternatives))
      types.push(...alternatives.map((item) => isObject(item) && typeOf(item)));
  }
  const found = types.find((name) => typeof name === 'string' && name !== 'null');
  if (typeof found === 'string') return found;
  if (properties !== undefined) return 'object';
  if (items !== undefined) return 'array';
  const example: unknown = Array.isArray(values) ? values.find((value) => value !== null) : undefined;
  return typeof example === 'number' || typeof example === 'boolean' ? typeof example : null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
