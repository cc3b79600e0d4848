import { createHash } from 'node:crypto';
import type { ChatRequest, Tool, ToolChoice } from '../../core/generation.ts';
import { MAX_TOOLS, readToolChoice, toolElements, ToolList } from '../tooling.ts';
import * as fields from './fields.ts';
import type { Element } from '../element.ts';
import type { RequestBody } from '../request-body.ts';
import {
  asList,
  asObject,
  checkWellFormed,
  displayName,
  isLongerThan,
  jsonObject,
  unsupported,
  wrongValue,
  type JsonObject,
} from '../../json/values.ts';

/** Parses `tools`, `tool_choice` and `parallel_tool_calls`. Throws a 400 with the path of the field. */
export function parseTooling(
  body: RequestBody,
): Pick<ChatRequest, 'tools' | 'toolChoice' | 'parallelToolCalls'> {
  const list = new ToolList<null>();
  if (asList(body.get('tools')).length > MAX_TOOLS)
    throw wrongValue('tools', `at most ${MAX_TOOLS} functions`);
  for (const element of toolElements(body)) addTool(element, list);
  const { tools, toolChoice, parallelToolCalls } = list.tooling(
    body.notes,
    () => parseToolChoice(body, list),
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

/** Notes a tool of another type than `function`. */
function addTool(tool: Element, list: ToolList<null>): void {
  const type = tool.get('type');
  if (typeof type === 'string' && type !== 'function') {
    // Only type names are repeated, because other text might be part of the conversation.
    tool.notes.add(tool.path, `ignored (${TYPE_NAME.test(type) ? type : 'unknown type'})`);
    return;
  }
  const described = functionOf(tool, TOOL_FIELDS);
  described.noteUnknown(FUNCTION_FIELDS);
  const parsed = parseFunction(described, parseName(described));
  list.name(parsed.name, null, described.at('name'));
  list.add(parsed, described.at('parameters'), 'functions');
}

/** Parses the description of a function with this name. `schema`: the field with the schema of its parameters, which `ToolList` checks. */
export function parseFunction(tool: Element, name: string, schema = 'parameters'): Tool {
  const description = tool.get('description') === null ? null : tool.text('description');
  checkDescription(description, tool);
  const strict = tool.boolean('strict') ?? false;
  const parameters = asObject(tool.get(schema) ?? NO_PARAMETERS, tool.at(schema));
  return { name, description, parameters, strict };
}

const NO_PARAMETERS = { type: 'object', properties: {} };

/** Checks the length of the description of a tool. */
export function checkDescription(description: string | null, tool: Element): void {
  const max = fields.MAX_TOOL_DESCRIPTION;
  if (description !== null && isLongerThan(description, max))
    throw wrongValue(tool.at('description'), `at most ${max} characters long`);
}

/**
 * Returns the `function` of a tool, a call or a tool choice. Throws a 400 unless its type is `function`. `known`
 * lists the fields that the outer object may have.
 */
export function functionOf(outer: Element, known: ReadonlySet<string> = ONLY_FUNCTION): Element {
  const { type } = outer;
  if (type !== 'function') {
    // Only type names are repeated, because other text might be part of the conversation.
    const found = TYPE_NAME.test(type) ? `; \`${type}\` is not supported` : '';
    throw unsupported(outer.at('type'), `must be \`function\`${found}`);
  }
  outer.noteUnknown(known);
  return outer.element('function');
}

const ONLY_FUNCTION = new Set(['type', 'function']);

/** The types of tools in OpenAI's APIs, such as `web_search` and `custom`. */
const TYPE_NAME = /^[a-z][a-z0-9_]{0,39}$/;

/** Returns a name of 1 to 64 letters, digits, "_" or "-" for a longer or other one, which differs from those of all others. */
export function shortName(name: string): string {
  if (fields.NAME.test(name)) return name;
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 8);
  return `${name.replaceAll(/[^\w-]/g, '_').slice(0, 55)}_${hash}`;
}

/** Parses the name of a function or of a format. */
export function parseName(element: Element): string {
  const name = element.text('name');
  if (!fields.NAME.test(name)) throw wrongValue(element.at('name'), '1 to 64 letters, digits, "_" or "-"');
  return name;
}

const UNMET = '`tool_choice` is only allowed when `tools` are specified.';

function parseToolChoice(body: RequestBody, { tools, known }: ToolList<null>): ToolChoice {
  const checkOffered = (name: string, path: string): void => {
    if (!known.has(name)) throw wrongValue(path, 'the name of a function in `tools`');
  };
  const choice = readToolChoice(body, tools, UNMET, (object) =>
    object.get('type') === 'allowed_tools' ? readAllowed(object) : { type: 'function', name: nameOf(object) },
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

function readAllowed(choice: Element): ToolChoice {
  choice.noteUnknown(ALLOWED_CHOICE_FIELDS);
  const allowed = choice.element('allowed_tools');
  allowed.noteUnknown(ALLOWED_FIELDS);
  const mode = allowed.oneOf('mode', ['auto', 'required']);
  const { length } = allowed.list('tools');
  if (length === 0 || length > MAX_TOOLS)
    throw wrongValue(allowed.at('tools'), `1 to ${MAX_TOOLS} functions`);
  return { type: 'allowed', mode, names: allowed.elements('tools').map(nameOf) };
}

/** Reads `{"type":"function","function":{"name"}}`. */
function nameOf(choice: Element): string {
  const named = functionOf(choice);
  named.noteUnknown(NAME_FIELDS);
  return parseName(named);
}

const RESERVED: ReadonlySet<string> = new Set(fields.RESERVED_VARIABLES);

/**
 * Returns `reasoning.max_tokens`, or the variable `thinking_budget` that some templates and servers read; null: neither is a
 * number of tokens.
 */
export function parseReasoningBudget(
  budget: number | null,
  { thinking_budget: variable }: JsonObject,
): number | null {
  const tokens =
    budget ?? (Number.isSafeInteger(variable) && Number(variable) >= 0 ? Number(variable) : null);
  return tokens === null ? null : Math.min(tokens, fields.MAX_INT32);
}

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
