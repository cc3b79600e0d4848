import { ServiceError } from '../core/errors.ts';
import type { ChatRequest, Tool, ToolChoice } from '../core/generation.ts';
import type { Notes } from '../core/notes.ts';
import { checkStrictSchemas } from '../json/json-schema.ts';
import { checkWellFormedJson, wrongType, wrongValue } from '../json/values.ts';
import type { Element } from './element.ts';

/** Functions per request. OpenAI's API accepts 128, but agents with many MCP servers have more. */
export const MAX_TOOLS = 1024;
/** Maximum size of `tools`, in characters of JSON. */
export const MAX_TOOLS_CHARACTERS = 1_048_576;

/** The tools of a request, and what its response needs. `Known`: a tool as the caller knows it. */
export interface Tooling<Known> extends Pick<ChatRequest, 'tools' | 'toolChoice' | 'parallelToolCalls'> {
  /** By the name that the model knows. */
  known: ReadonlyMap<string, Known>;
  /** Paths of the schemas of the tools. */
  paths: readonly string[];
}

/** Collects the tools that a model gets. */
export class ToolList<Known> {
  readonly tools: Tool[] = [];
  readonly known = new Map<string, Known>();
  readonly #paths: string[] = [];

  /** Reserves the name that the model knows. `why` continues the error for a name that is taken. */
  name(name: string, known: Known, path: string, why = ''): void {
    if (this.known.has(name)) throw wrongValue(path, `unique${why}`);
    this.known.set(name, known);
  }

  /** Adds a tool. `path`: that of its schema; `counted`: what there may be `MAX_TOOLS` of. */
  add(tool: Tool, path: string, counted: string): void {
    if (this.tools.length === MAX_TOOLS) throw wrongValue('tools', `at most ${MAX_TOOLS} ${counted}`);
    this.tools.push(tool);
    this.#paths.push(path);
  }

  /** Checks the schemas of strict tools, then reads the other fields, which have no effect without tools. */
  tooling(notes: Notes, choose: () => ToolChoice, isParallel: () => boolean): Tooling<Known> {
    const tools = withStrictSchemas(this.tools, this.#paths, notes);
    const [toolChoice, parallelToolCalls] = [choose(), isParallel()];
    const shared = { tools, known: this.known, paths: this.#paths };
    if (tools.length === 0) return { ...shared, toolChoice: { type: 'auto' }, parallelToolCalls: true };
    return { ...shared, toolChoice, parallelToolCalls };
  }
}

/** Returns the tools in a field. Checks their number of characters, and that their text is well-formed. */
export function toolElements(element: Element): readonly Element[] {
  if (element.get('tools') === null) return [];
  const path = element.at('tools');
  const text = JSON.stringify(element.list('tools'));
  if (text.length > MAX_TOOLS_CHARACTERS)
    throw wrongValue(path, `at most ${MAX_TOOLS_CHARACTERS} characters of JSON`);
  checkWellFormedJson(text, path);
  return element.elements('tools');
}

/**
 * Checks the schemas of the strict functions, and returns the functions with reduced ones: see `checkStrictSchemas`. `paths`:
 * where the parameters of each function are.
 */
function withStrictSchemas(tools: Tool[], paths: readonly string[], notes: Notes): Tool[] {
  const schemas = tools.flatMap(({ strict, parameters: schema }, index) =>
    strict ? [{ path: paths[index] ?? '', schema }] : [],
  );
  if (schemas.length === 0) return tools;
  const reduced = checkStrictSchemas(schemas, notes);
  for (const { path, schema } of schemas) {
    if (schema['type'] !== 'object') throw wrongValue(`${path}.type`, '`object` in strict functions');
  }
  return tools.map((tool) => ({ ...tool, parameters: reduced.get(tool.parameters) ?? tool.parameters }));
}

const CHOICES = ['none', 'auto', 'required'] as const;
const EXPECTED_CHOICE = `one of ${CHOICES.join(', ')}, or an object`;

/** Reads `tool_choice` as OpenAI's APIs have it. `unmet`: the error for a choice that needs tools if there are none. */
export function readToolChoice(
  body: Element,
  tools: readonly Tool[],
  unmet: string,
  readObject: (object: Element) => ToolChoice,
): ToolChoice {
  const value = body.get('tool_choice');
  if (value === null) return { type: 'auto' };
  const type = CHOICES.find((one) => one === value);
  if (typeof value === 'string' && type === undefined) throw wrongValue('tool_choice', EXPECTED_CHOICE);
  if (type === undefined && (typeof value !== 'object' || Array.isArray(value)))
    throw wrongType('tool_choice', EXPECTED_CHOICE, value);
  const choice = type === undefined ? readObject(body.element('tool_choice')) : { type };
  if (tools.length === 0 && choice.type !== 'none' && choice.type !== 'auto')
    throw new ServiceError('invalid_value', unmet, { param: 'tool_choice' });
  return choice;
}
