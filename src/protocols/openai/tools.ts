import { createHash } from 'node:crypto';
import type { ChatRequest, Tool, ToolChoice } from '../../core/generation.ts';
import { MAX_TOOLS, readToolChoice, toolElements, ToolList } from '../tooling.ts';
import * as fields from './fields.ts';
import type { Notes } from '../../core/notes.ts';
import type { RequestBody } from '../request-body.ts';
import {
  asList,
  asObject,
  asString,
  checkWellFormed,
  displayName,
  isLongerThan,
  jsonObject,
  missing,
  noteUnknown,
  unsupported,
  wrongType,
  wrongValue,
  type JsonObject,
} from '../../json/values.ts';

/** Parses `tools`, `tool_choice` and `parallel_tool_calls`. Throws a 400 with the path of the field. */
export function parseTooling(
  body: RequestBody,
): Pick<ChatRequest, 'tools' | 'toolChoice' | 'parallelToolCalls'> {
  const list = new ToolList<null>();
  const value = body.raw(fields.tools);
  if (Array.isArray(value) && value.length > MAX_TOOLS)
    throw wrongValue('tools', `at most ${MAX_TOOLS} functions`);
  for (const [index, element] of toolElements(value, 'tools').entries()) {
    const at = `tools[${index}].function`;
    const tool = parseTool(element, `tools[${index}]`, body.notes);
    if (tool === null) continue;
    list.name(tool.name, null, `${at}.name`);
    list.add(tool, `${at}.parameters`, 'functions');
  }
  const { tools, toolChoice, parallelToolCalls } = list.tooling(
    body.notes,
    () => parseToolChoice(body.raw(fields.toolChoice), list, body.notes),
    () => body.read(fields.parallelToolCalls),
  );
  return { tools, toolChoice, parallelToolCalls };
}

/** Returns the path of the schema of a function that the model got. Tools of other types were ignored. */
export function schemaPathOf(tools: unknown, index: number): string {
  const isFunction = (tool: unknown): boolean => jsonObject(tool)['type'] === 'function';
  const places = asList(tools).flatMap((tool, at) => (isFunction(tool) ? [at] : []));
  return `tools[${places[index]}].function.parameters`;
}

/** `cache_control` and `name` have no effect. Codex repeats the name of the function. */
const TOOL_FIELDS = new Set(['type', 'function', 'cache_control', 'name']);
const FUNCTION_FIELDS = new Set(['name', 'description', 'parameters', 'strict']);

/** Returns null for a tool of another type than `function`, which is noted. */
function parseTool(value: unknown, path: string, notes: Notes): Tool | null {
  const at = `${path}.function`;
  const type = asObject(value, path)['type'] ?? null;
  if (typeof type === 'string' && type !== 'function') {
    // Only type names are repeated, because other text might be part of the conversation.
    notes.add(path, `ignored (${TYPE_NAME.test(type) ? type : 'unknown type'})`);
    return null;
  }
  const object = functionOf(value, path, notes, TOOL_FIELDS);
  noteUnknown(object, FUNCTION_FIELDS, notes, `${at}.`);
  return parseFunction(object, at, notes);
}

/**
 * Parses the description of a function at `at`. `schema`: the name of the field with the schema of its parameters, which
 * `ToolList` checks.
 */
export function parseFunction(object: JsonObject, at: string, notes: Notes, schema = 'parameters'): Tool {
  const description = object['description'] ?? null;
  if (description !== null && isLongerThan(asString(description, `${at}.description`), MAX_DESCRIPTION)) {
    throw wrongValue(`${at}.description`, `at most ${MAX_DESCRIPTION} characters long`);
  }
  const strict = object['strict'] ?? false;
  if (typeof strict !== 'boolean') throw wrongType(`${at}.strict`, 'a boolean', strict);
  return {
    name: parseFunctionName(object['name'] ?? null, `${at}.name`),
    description: description as string | null, // Checked above.
    parameters: asObject(object[schema] ?? NO_PARAMETERS, `${at}.${schema}`),
    strict,
  };
}

const MAX_DESCRIPTION = fields.MAX_TOOL_DESCRIPTION;
const NO_PARAMETERS = { type: 'object', properties: {} };

/**
 * Returns the `function` of a tool, a call or a tool choice. Throws a 400 unless its type is `function`. `known`
 * lists the fields that the outer object may have.
 */
export function functionOf(
  value: unknown,
  path: string,
  notes: Notes,
  known: ReadonlySet<string> = ONLY_FUNCTION,
): JsonObject {
  const object = asObject(value, path);
  checkFunctionType(object['type'] ?? null, `${path}.type`);
  noteUnknown(object, known, notes, `${path}.`);
  const inner = object['function'] ?? null;
  if (inner === null) throw missing(`${path}.function`);
  return asObject(inner, `${path}.function`);
}

const ONLY_FUNCTION = new Set(['type', 'function']);

function checkFunctionType(type: unknown, path: string): void {
  if (type === null) throw missing(path);
  if (typeof type !== 'string') throw wrongType(path, 'a string', type);
  if (type === 'function') return;
  // Only type names are repeated, because other text might be part of the conversation.
  const found = TYPE_NAME.test(type) ? `; \`${type}\` is not supported` : '';
  throw unsupported(path, `must be \`function\`${found}`);
}

/** The types of tools in OpenAI's APIs, such as `web_search` and `custom`. */
const TYPE_NAME = /^[a-z][a-z0-9_]{0,39}$/;

/** Returns a name of 1 to 64 letters, digits, "_" or "-" for a longer or other one, which differs from those of all others. */
export function shortName(name: string): string {
  if (fields.NAME.test(name)) return name;
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 8);
  return `${name.replaceAll(/[^\w-]/g, '_').slice(0, 55)}_${hash}`;
}

function parseFunctionName(value: unknown, path: string): string {
  if (value === null) throw missing(path);
  const name = asString(value, path);
  if (!fields.NAME.test(name)) throw wrongValue(path, '1 to 64 letters, digits, "_" or "-"');
  return name;
}

const UNMET = '`tool_choice` is only allowed when `tools` are specified.';

function parseToolChoice(value: unknown, { tools, known }: ToolList<null>, notes: Notes): ToolChoice {
  const checkOffered = (name: string, path: string): void => {
    if (!known.has(name)) throw wrongValue(path, 'the name of a function in `tools`');
  };
  const choice = readToolChoice(value, tools, UNMET, (object) =>
    object['type'] === 'allowed_tools'
      ? readAllowed(object, notes)
      : { type: 'function', name: nameOf(object, 'tool_choice', notes) },
  );
  if (choice.type === 'function') checkOffered(choice.name, 'tool_choice.function.name');
  if (choice.type !== 'allowed') return choice;
  choice.names.forEach((name, index) => checkOffered(name, `${ALLOWED}.tools[${index}].function.name`));
  return { ...choice, names: [...new Set(choice.names)] };
}

const ALLOWED = 'tool_choice.allowed_tools';
const ALLOWED_CHOICE_FIELDS = new Set(['type', 'allowed_tools']);
const ALLOWED_FIELDS = new Set(['mode', 'tools']);
const NAME_FIELDS = new Set(['name']);

function readAllowed(object: JsonObject, notes: Notes): ToolChoice {
  noteUnknown(object, ALLOWED_CHOICE_FIELDS, notes, 'tool_choice.');
  const allowed = object['allowed_tools'] ?? null;
  if (allowed === null) throw missing(ALLOWED);
  const fieldsOfAllowed = asObject(allowed, ALLOWED);
  noteUnknown(fieldsOfAllowed, ALLOWED_FIELDS, notes, `${ALLOWED}.`);
  const { mode = null, tools = null } = fieldsOfAllowed;
  if (mode === null) throw missing(`${ALLOWED}.mode`);
  if (typeof mode !== 'string') throw wrongType(`${ALLOWED}.mode`, 'a string', mode);
  if (mode !== 'auto' && mode !== 'required') throw wrongValue(`${ALLOWED}.mode`, 'one of auto, required');
  if (tools === null) throw missing(`${ALLOWED}.tools`);
  if (!Array.isArray(tools)) throw wrongType(`${ALLOWED}.tools`, 'an array', tools);
  if (tools.length === 0 || tools.length > MAX_TOOLS) {
    throw wrongValue(`${ALLOWED}.tools`, `1 to ${MAX_TOOLS} functions`);
  }
  const names = tools.map((tool, index) => nameOf(tool, `${ALLOWED}.tools[${index}]`, notes));
  return { type: 'allowed', mode, names };
}

/** Reads `{"type":"function","function":{"name"}}`. */
function nameOf(value: unknown, path: string, notes: Notes): string {
  const object = functionOf(value, path, notes);
  noteUnknown(object, NAME_FIELDS, notes, `${path}.function.`);
  return parseFunctionName(object['name'] ?? null, `${path}.function.name`);
}

const RESERVED: ReadonlySet<string> = new Set(fields.RESERVED_VARIABLES);

/** Parses `chat_template_kwargs`. Throws a 400 with the path of the variable. */
export function parseTemplateVariables(body: RequestBody): JsonObject {
  const path = fields.templateVariables.path;
  const variables = asObject(body.raw(fields.templateVariables) ?? {}, path);
  const names = Object.keys(variables);
  if (names.length === 0) return {};
  if (names.length > fields.MAX_TEMPLATE_VARIABLES) {
    throw wrongValue(path, `an object with at most ${fields.MAX_TEMPLATE_VARIABLES} variables`);
  }
  for (const name of names) {
    const at = `${path}.${displayName(name)}`;
    if (RESERVED.has(name)) {
      throw unsupported(at, `is set by the service, as are ${fields.RESERVED_VARIABLES.join(', ')}`);
    }
    if (!fields.TEMPLATE_VARIABLE.test(name)) {
      throw wrongValue(at, 'a name of at most 64 letters, digits or "_" that starts with a letter');
    }
  }
  const text = JSON.stringify(variables);
  if (text.length > fields.MAX_TEMPLATE_CHARACTERS) {
    throw wrongValue(path, `at most ${fields.MAX_TEMPLATE_CHARACTERS} characters of JSON`);
  }
  checkWellFormed(variables, path);
  return variables;
}
