import type { Tool, ToolChoice } from '../../core/generation.ts';
import { Element } from '../element.ts';
import type { RequestBody } from '../request-body.ts';
import { checkDescription, parseFunction, parseName, shortName } from '../openai/tools.ts';
import { readToolChoice, toolElements, ToolList, type Tooling } from '../tooling.ts';
import { asList, displayName, jsonObject, unsupported, wrongValue } from '../../json/values.ts';
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
  for (const tool of toolElements(body)) addTool(tool, list);
  for (const [index, value] of asList(body.get('input')).entries()) {
    if (jsonObject(value)['type'] !== 'additional_tools') continue;
    for (const tool of toolElements(new Element(value, `input[${index}]`, body.notes))) addTool(tool, list);
  }
  return list.tooling(
    body.notes,
    () => parseToolChoice(body, list),
    () => body.read(fields.parallelToolCalls),
  );
}

type Tools = ToolList<ToolIdentity>;

const FUNCTION_FIELDS = new Set(['type', 'name', 'description', 'parameters', 'strict']);
const CUSTOM_FIELDS = new Set(['type', 'name', 'description', 'format']);
const NAMESPACE_FIELDS = new Set(['type', 'name', 'description', 'tools']);

function addTool(tool: Element, list: Tools, namespace: string | null = null): void {
  const { type, notes } = tool;
  if (type === 'function' || type === 'custom') {
    tool.noteUnknown(type === 'function' ? FUNCTION_FIELDS : CUSTOM_FIELDS);
    // Names in a namespace can be longer than those of functions. They are shortened for the model.
    const identity = {
      type,
      name: namespace === null ? parseName(tool) : nameIn(tool, 'name'),
      namespace,
    } as const;
    const name = modelName(identity);
    const parsed = type === 'function' ? parseFunction(tool, name) : customFunction(tool, name);
    const why = namespace === null ? '' : `, because the model sees it as \`${name}\``;
    list.name(name, identity, tool.at('name'), why);
    list.add(parsed, tool.at('parameters'), 'functions, including those of namespaces');
  } else if (type === 'namespace' && namespace === null) {
    tool.noteUnknown(NAMESPACE_FIELDS);
    const name = nameIn(tool, 'name');
    if (tool.get('tools') === null) return;
    for (const inner of tool.elements('tools')) addTool(inner, list, name);
  } else notes.add(tool.path, `ignored (${displayName(type)})`);
}

const MAX_NAME = 256;

/** Returns a name that functions cannot have. */
function nameIn(element: Element, field: string): string {
  const name = element.text(field);
  if (name === '' || name.length > MAX_NAME)
    throw wrongValue(element.at(field), `1 to ${MAX_NAME} characters long`);
  return name;
}

/** The parameters of a custom tool: it takes a text, with which the model calls a function. */
const INPUT = 'input';
const CUSTOM_PARAMETERS = {
  type: 'object',
  properties: { [INPUT]: { type: 'string' } },
  required: [INPUT],
  additionalProperties: false,
};

function customFunction(tool: Element, name: string): Tool {
  const format = tool.optional('format');
  const parts = [tool.optionalText('description'), format === null ? '' : grammarOf(format)];
  const description = parts.filter((part) => part !== '').join('\n\n');
  checkDescription(description, tool);
  return { name, description, parameters: CUSTOM_PARAMETERS, strict: false };
}

function grammarOf(format: Element): string {
  const type = format.get('type');
  if (type === 'text') return '';
  if (type !== 'grammar') throw wrongValue(format.at('type'), 'one of text, grammar');
  // OpenAI's chat completions have the fields of the grammar in an object.
  const grammar = format.optional('grammar') ?? format;
  const syntax = grammar.get('syntax') === null ? 'lark' : grammar.text('syntax');
  return `The input must match this grammar (${displayName(syntax)}):\n${grammar.text('definition')}`;
}

/** Returns the arguments of the function for the input of a custom tool. */
export function customArguments(input: string): string {
  return JSON.stringify({ [INPUT]: input });
}

const NAMED_FIELDS = new Set(['type', 'name', 'namespace']);
const ALLOWED_FIELDS = new Set(['type', 'mode', 'tools']);

const UNMET = '`tool_choice` requires `tools` with a function or a custom tool.';

function parseToolChoice(body: Element, list: Tools): ToolChoice {
  return readToolChoice(body, list.tools, UNMET, (choice) => {
    const type = choice.get('type');
    if (type === 'allowed_tools') return readAllowed(choice, list);
    if (isCallable(choice)) return { type: 'function', name: offeredName(choice, list) };
    const found = typeof type === 'string' ? displayName(type) : '';
    throw unsupported('tool_choice', `must name a function or a custom tool; \`${found}\` is not supported`);
  });
}

function isCallable(tool: Element): boolean {
  const type = tool.get('type');
  return type === 'function' || type === 'custom';
}

function offeredName(tool: Element, { known }: Tools): string {
  tool.noteUnknown(NAMED_FIELDS);
  const namespace = tool.get('namespace') === null ? null : nameIn(tool, 'namespace');
  const name = modelName({ name: nameIn(tool, 'name'), namespace });
  if (!known.has(name)) throw wrongValue(tool.at('name'), 'the name of a tool in `tools`');
  return name;
}

function readAllowed(choice: Element, list: Tools): ToolChoice {
  choice.noteUnknown(ALLOWED_FIELDS);
  const mode = choice.get('mode') === null ? 'auto' : choice.oneOf('mode', ['auto', 'required']);
  const names = new Set<string>();
  for (const tool of choice.elements('tools')) {
    if (isCallable(tool)) names.add(offeredName(tool, list));
    else tool.notes.add(tool.path, 'ignored (not a function or a custom tool)');
  }
  if (names.size > 0) return { type: 'allowed', mode, names: [...names] };
  if (mode === 'auto') return { type: 'none' };
  throw wrongValue('tool_choice.tools', 'an array with a function or a custom tool');
}
