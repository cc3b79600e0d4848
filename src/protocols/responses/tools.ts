import { ServiceError } from '../../core/errors.ts';
import type { ChatRequest, Tool, ToolChoice } from '../../core/generation.ts';
import type { Notes } from '../../core/notes.ts';
import { MAX_TOOLS, NAME } from '../openai/fields.ts';
import type { RequestBody } from '../request-body.ts';
import { checkToolsText, parseFunction, shortName, withStrictSchemas } from '../openai/tools.ts';
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

export interface Tooling extends Pick<ChatRequest, 'tools' | 'toolChoice' | 'parallelToolCalls'> {
  /** By the name that the model knows. */
  identities: ReadonlyMap<string, ToolIdentity>;
  /** Paths of the parameters of the functions. */
  paths: readonly string[];
}

/** Returns the name of a tool for the model. A tool of a namespace needs one that no other namespace has. */
export function modelName({ name, namespace }: Pick<ToolIdentity, 'name' | 'namespace'>): string {
  return namespace === null ? name : shortName(`${namespace}__${name}`);
}

/** Parses `tools`, the items `additional_tools`, `tool_choice` and `parallel_tool_calls`. Throws a 400 with the path of the field. */
export function parseTooling(body: RequestBody): Tooling {
  const collected = new ToolCollector(body.notes);
  collected.addAll(body.raw(fields.tools), 'tools');
  for (const [index, item] of asList(body.raw(fields.input)).entries()) {
    const { type, tools = null } = jsonObject(item);
    if (type === 'additional_tools') collected.addAll(tools, `input[${index}].tools`);
  }
  const { identities, paths } = collected;
  const tools = withStrictSchemas(collected.tools, paths, body.notes);
  const toolChoice = parseToolChoice(body.raw(fields.toolChoice), collected, body.notes);
  const parallelToolCalls = body.read(fields.parallelToolCalls);
  if (tools.length === 0) {
    return { tools, identities, paths, toolChoice: { type: 'auto' }, parallelToolCalls: true };
  }
  return { tools, identities, paths, toolChoice, parallelToolCalls };
}

const FUNCTION_FIELDS = new Set(['type', 'name', 'description', 'parameters', 'strict']);
const CUSTOM_FIELDS = new Set(['type', 'name', 'description', 'format']);
const NAMESPACE_FIELDS = new Set(['type', 'name', 'description', 'tools']);

class ToolCollector {
  readonly tools: Tool[] = [];
  readonly identities = new Map<string, ToolIdentity>();
  readonly paths: string[] = [];
  readonly #notes: Notes;

  constructor(notes: Notes) {
    this.#notes = notes;
  }

  addAll(value: unknown, path: string, namespace: string | null = null): void {
    if (value === null) return;
    if (!Array.isArray(value)) throw wrongType(path, 'an array', value);
    if (namespace === null) checkToolsText(value, path);
    for (const [index, element] of value.entries()) {
      this.#add(asObject(element, `${path}[${index}]`), `${path}[${index}]`, namespace);
    }
  }

  #add(tool: JsonObject, path: string, namespace: string | null): void {
    const { type = null } = tool;
    if (type === null) throw missing(`${path}.type`);
    if (typeof type !== 'string') throw wrongType(`${path}.type`, 'a string', type);
    if (type === 'function') {
      noteUnknown(tool, FUNCTION_FIELDS, this.#notes, `${path}.`);
      this.#push(
        { type, name: nameOf(tool, path, namespace), namespace },
        parseFunction(named(tool, namespace), path, this.#notes),
        path,
      );
    } else if (type === 'custom') {
      noteUnknown(tool, CUSTOM_FIELDS, this.#notes, `${path}.`);
      this.#push(
        { type, name: nameOf(tool, path, namespace), namespace },
        customFunction(tool, path, this.#notes),
        path,
      );
    } else if (type === 'namespace' && namespace === null) {
      noteUnknown(tool, NAMESPACE_FIELDS, this.#notes, `${path}.`);
      this.addAll(tool['tools'] ?? null, `${path}.tools`, textOf(tool, 'name', path));
    } else this.#notes.add(path, `ignored (${displayName(type)})`);
  }

  #push(identity: ToolIdentity, tool: Tool, path: string): void {
    const name = modelName(identity);
    if (this.identities.has(name)) {
      const model = identity.namespace === null ? '' : `, because the model sees it as \`${name}\``;
      throw wrongValue(`${path}.name`, `unique${model}`);
    }
    if (this.tools.length === MAX_TOOLS) {
      throw wrongValue('tools', `at most ${MAX_TOOLS} functions, including those of namespaces`);
    }
    this.identities.set(name, identity);
    this.tools.push({ ...tool, name });
    this.paths.push(`${path}.parameters`);
  }
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

/** The only parameter of the function that stands for a custom tool. */
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

const CHOICES = ['none', 'auto', 'required'] as const;
const EXPECTED_CHOICE = `one of ${CHOICES.join(', ')}, or an object`;
const NAMED_FIELDS = new Set(['type', 'name', 'namespace']);
const ALLOWED_FIELDS = new Set(['type', 'mode', 'tools']);

function parseToolChoice(value: unknown, offered: ToolCollector, notes: Notes): ToolChoice {
  if (value === null) return { type: 'auto' };
  const choice = readToolChoice(value, offered, notes);
  if (offered.tools.length === 0 && choice.type !== 'none' && choice.type !== 'auto') {
    const message = '`tool_choice` requires `tools` with a function or a custom tool.';
    throw new ServiceError('invalid_value', message, { param: 'tool_choice' });
  }
  return choice;
}

function readToolChoice(value: unknown, offered: ToolCollector, notes: Notes): ToolChoice {
  const type = CHOICES.find((one) => one === value);
  if (type !== undefined) return { type };
  if (typeof value === 'string') throw wrongValue('tool_choice', EXPECTED_CHOICE);
  if (typeof value !== 'object' || Array.isArray(value))
    throw wrongType('tool_choice', EXPECTED_CHOICE, value);
  const object = asObject(value, 'tool_choice');
  if (object['type'] === 'allowed_tools') return readAllowed(object, offered, notes);
  if (!isCallable(object)) {
    const type = typeof object['type'] === 'string' ? displayName(object['type']) : '';
    throw unsupported('tool_choice', `must name a function or a custom tool; \`${type}\` is not supported`);
  }
  return { type: 'function', name: offeredName(object, 'tool_choice', offered, notes) };
}

function isCallable({ type }: JsonObject): boolean {
  return type === 'function' || type === 'custom';
}

function offeredName(object: JsonObject, path: string, offered: ToolCollector, notes: Notes): string {
  noteUnknown(object, NAMED_FIELDS, notes, `${path}.`);
  const namespace = object['namespace'] ?? null;
  const name = modelName({
    name: textOf(object, 'name', path),
    namespace: namespace === null ? null : textOf(object, 'namespace', path),
  });
  if (!offered.identities.has(name)) throw wrongValue(`${path}.name`, 'the name of a tool in `tools`');
  return name;
}

function readAllowed(object: JsonObject, offered: ToolCollector, notes: Notes): ToolChoice {
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
