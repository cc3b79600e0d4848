import { ServiceError } from '../../core/errors.ts';
import type { Tool, ToolChoice } from '../../core/generation.ts';
import type { Element } from '../element.ts';
import { parseFunction, shortName } from '../openai/tools.ts';
import { toolElements, ToolList, type Tooling } from '../tooling.ts';
import { displayName, wrongValue } from '../../json/values.ts';

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
export function parseTooling(body: Element, loaded: ReadonlySet<string>): Tooling<string> {
  const { choice, parallelToolCalls } = parseChoice(body);
  const list = new ToolList<string>();
  for (const tool of toolElements(body)) {
    const type = tool.get('type') === null ? 'custom' : tool.type;
    if (type !== 'custom') {
      body.notes.add(tool.path, `ignored (${displayName(type)})`);
      continue;
    }
    tool.noteUnknown(TOOL_FIELDS);
    const name = nameOf(tool);
    const parsed = parseFunction(tool, modelName(name), 'input_schema');
    list.name(parsed.name, name, tool.at('name'));
    if (tool.boolean('defer_loading') === true && !loaded.has(name) && choice.name !== name) continue;
    list.add(parsed, tool.at('input_schema'), 'tools, besides those with `defer_loading`');
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

function nameOf(element: Element): string {
  const name = element.text('name');
  if (!NAME.test(name)) throw wrongValue(element.at('name'), '1 to 128 letters, digits, "_" or "-"');
  return name;
}

const TYPES = ['auto', 'any', 'tool', 'none'] as const;
const CHOICE_FIELDS = new Set(['type', 'name', 'disable_parallel_tool_use']);

interface Choice {
  type: (typeof TYPES)[number];
  /** Null unless the type is `tool`. */
  name: string | null;
}

function parseChoice(body: Element): { choice: Choice; parallelToolCalls: boolean } {
  const object = body.optional('tool_choice');
  if (object === null) return { choice: { type: 'auto', name: null }, parallelToolCalls: true };
  object.noteUnknown(CHOICE_FIELDS);
  const type = TYPES.find((one) => one === object.get('type'));
  if (type === undefined) throw wrongValue('tool_choice.type', `one of ${TYPES.join(', ')}`);
  const parallelToolCalls = object.boolean('disable_parallel_tool_use') !== true;
  return { choice: { type, name: type === 'tool' ? nameOf(object) : null }, parallelToolCalls };
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
