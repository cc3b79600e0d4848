import type { Tool, ToolChoice } from '../../core/generation.ts';
import type { Notes } from '../../core/notes.ts';
import { NAME } from '../openai/fields.ts';
import type { RequestBody } from '../request-body.ts';
import { parseFunction, shortName } from '../openai/tools.ts';
import { readToolChoice, toolElements, ToolList, type Tooling } from '../tooling.ts';
import {
  asList,
  asObject,
  asString,
  displayName,
  jsonObject,
  missing,
  noteUnknown,
  unsupported,
  wrongType,
  wrongValue,
  type JsonObject,
} from '../../json/values.ts';
import * as fields from './fields.ts';

/** A tool as the caller knows it. The model knows only functions. */
export interface ToolIdentity {
  type: 'function' | 'custom';
  name: string;
  /** Null: not in a namespace. */
  namespace: string | null;
}

/** Returns the name of a tool for the model. A tool of a namespace needs one that no other namespace has. */
export function modelName({ name, namespace }: Pick<ToolIdentity, 'name' | 'namespace'>): string {
  return namespace === null ? name : shortName(`${namespace}__${name}`);
}

/** Parses `tools`, the items `additional_tools`, `tool_choice` and `parallel_tool_calls`. Throws a 400 with the path of the field. */
export function parseTooling(body: RequestBody): Tooling<ToolIdentity> {
  const list = new ToolList<ToolIdentity>();
  addAll(list, toolElements(body.raw(fields.tools), 'tools'), 'tools', body.notes);
  for (const [index, item] of asList(body.raw(fields.input)).entries()) {
    const { type, tools = null } = jsonObject(item);
    if (type !== 'additional_tools') continue;
    const path = `input[${index}].tools`;
    addAll(list, toolElements(tools, path), path, body.notes);
  }
  return list.tooling(
    body.notes,
    () => parseToolChoice(body.raw(fields.toolChoice), list, body.notes),
    () => body.read(fields.parallelToolCalls),
  );
}

type Tools = ToolList<ToolIdentity>;

const FUNCTION_FIELDS = new Set(['type', 'name', 'description', 'parameters', 'strict']);
const CUSTOM_FIELDS = new Set(['type', 'name', 'description', 'format']);
const NAMESPACE_FIELDS = new Set(['type', 'name', 'description', 'tools']);

function addAll(
  list: Tools,
  elements: readonly unknown[],
  path: string,
  notes: Notes,
  namespace: string | null = null,
): void {
  for (const [index, element] of elements.entries()) {
    const at = `${path}[${index}]`;
    add(list, asObject(element, at), at, notes, namespace);
  }
}

function add(list: Tools, tool: JsonObject, path: string, notes: Notes, namespace: string | null): void {
  const { type = null } = tool;
  if (type === null) throw missing(`${path}.type`);
  if (typeof type !== 'string') throw wrongType(`${path}.type`, 'a string', type);
  if (type === 'function' || type === 'custom') {
    noteUnknown(tool, type === 'function' ? FUNCTION_FIELDS : CUSTOM_FIELDS, notes, `${path}.`);
    const identity = { type, name: nameOf(tool, path, namespace), namespace } as const;
    const read =
      type === 'function'
        ? parseFunction(named(tool, namespace), path, notes)
        : customFunction(tool, path, notes);
    const name = modelName(identity);
    const why = namespace === null ? '' : `, because the model sees it as \`${name}\``;
    list.name(name, identity, `${path}.name`, why);
    list.add({ ...read, name }, `${path}.parameters`, 'functions, including those of namespaces');
  } else if (type === 'namespace' && namespace === null) {
    noteUnknown(tool, NAMESPACE_FIELDS, notes, `${path}.`);
    const at = `${path}.tools`;
    const name = textOf(tool, 'name', path);
    const inner = tool['tools'] ?? [];
    if (!Array.isArray(inner)) throw wrongType(at, 'an array', inner);
    addAll(list, inner, at, notes, name);
  } else notes.add(path, `ignored (${displayName(type)})`);
}

/** Names of a namespace can be longer than those of functions. They are shortened for the model. */
function nameOf(tool: JsonObject, path: string, namespace: string | null): string {
  const name = textOf(tool, 'name', path);
  if (namespace === null && !NAME.test(name))
    throw wrongValue(`${path}.name`, '1 to 64 letters, digits, "_" or "-"');
  return name;
}

/** `parseFunction` checks the name. That of a function in a namespace was checked, and is replaced. */
function named(tool: JsonObject, namespace: string | null): JsonObject {
  return namespace === null ? tool : { ...tool, name: 'in_namespace' };
}

const MAX_NAME = 256;

function textOf(object: JsonObject, field: string, path: string): string {
  const value = object[field] ?? null;
  if (value === null) throw missing(`${path}.${field}`);
  const text = asString(value, `${path}.${field}`);
  if (text === '' || text.length > MAX_NAME)
    throw wrongValue(`${path}.${field}`, `1 to ${MAX_NAME} characters long`);
  return text;
}

/** A custom tool becomes a function with this one parameter. */
const INPUT = 'input';

/** A custom tool takes a text. The model calls a function with this text in its only parameter. */
function customFunction(tool: JsonObject, path: string, notes: Notes): Tool {
  const { description = null, format = null } = tool;
  const grammar = format === null ? '' : grammarOf(asObject(format, `${path}.format`), `${path}.format`);
  const parts = [description === null ? '' : asString(description, `${path}.description`), grammar];
  return parseFunction(
    {
      name: 'custom',
      description: parts.filter((part) => part !== '').join('\n\n'),
      parameters: {
        type: 'object',
        properties: { [INPUT]: { type: 'string' } },
        required: [INPUT],
        additionalProperties: false,
      },
    },
    path,
    notes,
  );
}

function grammarOf(format: JsonObject, path: string): string {
  const { type } = format;
  if (type === 'text') return '';
  if (type !== 'grammar') throw wrongValue(`${path}.type`, 'one of text, grammar');
  // OpenAI's chat completions have the fields of the grammar in an object.
  const { syntax, definition = null } = { ...format, ...jsonObject(format['grammar']) };
  if (definition === null) throw missing(`${path}.definition`);
  return `The input must match this grammar (${displayName(asString(syntax ?? 'lark', `${path}.syntax`))}):\n${asString(definition, `${path}.definition`)}`;
}

/** Returns the arguments of the function for the input of a custom tool. */
export function customArguments(input: string): string {
  return JSON.stringify({ [INPUT]: input });
}

const NAMED_FIELDS = new Set(['type', 'name', 'namespace']);
const ALLOWED_FIELDS = new Set(['type', 'mode', 'tools']);

const UNMET = '`tool_choice` requires `tools` with a function or a custom tool.';

function parseToolChoice(value: unknown, list: Tools, notes: Notes): ToolChoice {
  return readToolChoice(value, list.tools, UNMET, (object) => {
    if (object['type'] === 'allowed_tools') return readAllowed(object, list, notes);
    if (isCallable(object))
      return { type: 'function', name: offeredName(object, 'tool_choice', list, notes) };
    const type = typeof object['type'] === 'string' ? displayName(object['type']) : '';
    throw unsupported('tool_choice', `must name a function or a custom tool; \`${type}\` is not supported`);
  });
}

function isCallable({ type }: JsonObject): boolean {
  return type === 'function' || type === 'custom';
}

function offeredName(object: JsonObject, path: string, offered: Tools, notes: Notes): string {
  noteUnknown(object, NAMED_FIELDS, notes, `${path}.`);
  const namespace = object['namespace'] ?? null;
  const name = modelName({
    name: textOf(object, 'name', path),
    namespace: namespace === null ? null : textOf(object, 'namespace', path),
  });
  if (!offered.known.has(name)) throw wrongValue(`${path}.name`, 'the name of a tool in `tools`');
  return name;
}

function readAllowed(object: JsonObject, offered: Tools, notes: Notes): ToolChoice {
  noteUnknown(object, ALLOWED_FIELDS, notes, 'tool_choice.');
  const { tools = null } = object;
  const mode = object['mode'] ?? 'auto';
  if (mode !== 'auto' && mode !== 'required') throw wrongValue('tool_choice.mode', 'one of auto, required');
  if (tools === null) throw missing('tool_choice.tools');
  if (!Array.isArray(tools)) throw wrongType('tool_choice.tools', 'an array', tools);
  const names = tools.flatMap((element, index) => {
    const path = `tool_choice.tools[${index}]`;
    const tool = asObject(element, path);
    if (isCallable(tool)) return [offeredName(tool, path, offered, notes)];
    notes.add(path, 'ignored (not a function or a custom tool)');
    return [];
  });
  if (names.length > 0) return { type: 'allowed', mode, names: [...new Set(names)] };
  if (mode === 'auto') return { type: 'none' };
  throw wrongValue('tool_choice.tools', 'an array with a function or a custom tool');
}
