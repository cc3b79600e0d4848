import { ServiceError } from '../../core/errors.ts';
import type { Tool, ToolChoice } from '../../core/generation.ts';
import type { RequestBody } from '../request-body.ts';
import { parseFunction, shortName } from '../openai/tools.ts';
import { toolElements, ToolList, type Tooling } from '../tooling.ts';
import {
  asObject,
  asString,
  displayName,
  missing,
  noteUnknown,
  wrongType,
  wrongValue,
  type JsonObject,
} from '../../json/values.ts';
import * as fields from './fields.ts';

/** The names of tools in Anthropic's API, which can be longer than those of functions. */
const NAME = /^[A-Za-z0-9_-]{1,128}$/;

/** Returns the name of a tool for the model. Names that no tool can have stay as they are. */
export function modelName(name: string): string {
  return NAME.test(name) ? shortName(name) : name;
}

/**
 * Parses `tools` and `tool_choice`. Deferred tools are left out, except those in `loaded` and the one that the choice names.
 * The caller knows tools by their names. Throws a 400 with the path of the field.
 */
export function parseTooling(body: RequestBody, loaded: ReadonlySet<string>): Tooling<string> {
  const elements = toolElements(body.raw(fields.tools), 'tools');
  const { choice, parallelToolCalls } = parseChoice(body);
  const list = new ToolList<string>();
  for (const [index, element] of elements.entries()) {
    const path = `tools[${index}]`;
    const object = asObject(element, path);
    const { type = null } = object;
    if (type !== null && type !== 'custom') {
      if (typeof type !== 'string') throw wrongType(`${path}.type`, 'a string', type);
      body.notes.add(path, `ignored (${displayName(type)})`);
      continue;
    }
    noteUnknown(object, TOOL_FIELDS, body.notes, `${path}.`);
    const name = nameOf(object, `${path}.name`);
    const tool = parseFunction({ ...object, name: modelName(name) }, path, body.notes, 'input_schema');
    list.name(tool.name, name, `${path}.name`);
    if (isDeferred(object, path) && !loaded.has(name) && choice.name !== name) continue;
    list.add(tool, `${path}.input_schema`, 'tools, besides those with `defer_loading`');
  }
  return list.tooling(
    body.notes,
    () => toolChoiceOf(choice, list.tools),
    () => parallelToolCalls,
  );
}

/** The last five have no effect here. */
const TOOL_FIELDS = new Set([
  'type',
  'name',
  'description',
  'input_schema',
  'strict',
  'defer_loading',
  'cache_control',
  'eager_input_streaming',
  'input_examples',
  'allowed_callers',
]);

function nameOf({ name = null }: JsonObject, path: string): string {
  if (name === null) throw missing(path);
  const text = asString(name, path);
  if (!NAME.test(text)) throw wrongValue(path, '1 to 128 letters, digits, "_" or "-"');
  return text;
}

function isDeferred({ defer_loading: deferred = null }: JsonObject, path: string): boolean {
  if (deferred !== null && typeof deferred !== 'boolean')
    throw wrongType(`${path}.defer_loading`, 'a boolean', deferred);
  return deferred === true;
}

const TYPES = ['auto', 'any', 'tool', 'none'] as const;
const CHOICE_FIELDS = new Set(['type', 'name', 'disable_parallel_tool_use']);

interface Choice {
  type: (typeof TYPES)[number];
  /** Null unless the type is `tool`. */
  name: string | null;
}

function parseChoice(body: RequestBody): { choice: Choice; parallelToolCalls: boolean } {
  const value = body.raw(fields.toolChoice);
  if (value === null) return { choice: { type: 'auto', name: null }, parallelToolCalls: true };
  const object = asObject(value, 'tool_choice');
  noteUnknown(object, CHOICE_FIELDS, body.notes, 'tool_choice.');
  const { disable_parallel_tool_use: single = null } = object;
  const type = TYPES.find((one) => one === object['type']);
  if (type === undefined) throw wrongValue('tool_choice.type', `one of ${TYPES.join(', ')}`);
  if (single !== null && typeof single !== 'boolean')
    throw wrongType('tool_choice.disable_parallel_tool_use', 'a boolean', single);
  const name = type === 'tool' ? nameOf(object, 'tool_choice.name') : null;
  return { choice: { type, name }, parallelToolCalls: single !== true };
}

function toolChoiceOf({ type, name }: Choice, tools: readonly Tool[]): ToolChoice {
  switch (type) {
    case 'auto':
    case 'none':
      return { type };
    case 'any':
      if (tools.length > 0) return { type: 'required' };
      throw new ServiceError('invalid_value', '`tool_choice` requires `tools` that the model can call.', {
        param: 'tool_choice',
      });
    case 'tool': {
      const tool = tools.find((one) => one.name === modelName(name ?? ''));
      if (tool === undefined)
        throw wrongValue('tool_choice.name', 'the name of a tool in `tools` that can be called');
      return { type: 'function', name: tool.name };
    }
  }
}
