import { ServiceError } from '../../../core/errors.ts';
import type { JsonSchema, Tool } from '../../../core/generation.ts';
import { checkJsonSchema } from '../../../json/json-schema.ts';
import { GrammarRules, literal, schemaError, unsatisfiable } from '../grammar/grammar-rules.ts';
import { isAnyOrder, type RawRules, SchemaGrammar } from '../grammar/grammar-schema.ts';
import type { TokenSample } from '../grammar/grammar-work.ts';
import { CallGrammar } from './call-grammar.ts';
import type { ToolFormat } from './tool-format.ts';

export interface ToolGrammarOptions {
  format: ToolFormat;
  /** The tools that may be called, at least one. */
  tools: readonly Tool[];
  /** Whether there may be several calls, if the format allows it. */
  parallel: boolean;
  /**
   * The text that the grammar constrains. `call`: one call, or one list of calls, with its opening (`OutputParser.callText`).
   * `output`: all of the output after the reasoning, with at least one call or the `alternative`.
   */
  target: 'call' | 'output';
  /** For `call`: the text before the opening. Default: ''. */
  before?: string;
  /** For `output`: adds the rules of a text that is allowed instead of calls, and returns its expression. */
  alternative?: (rules: GrammarRules) => string;
  /** For `output`: also allows any text that begins with this string. Default: '', none. */
  opening?: string;
  /** Used to check the limits of strict schemas. */
  tokens: TokenSample;
  /** Returns the path of a tool's schema in the request, for errors. */
  path: (tool: Tool) => string;
}

/**
 * Returns a GBNF grammar (start rule `root`) for calls of these tools. Arguments are a JSON object, or values that the
 * format converts to one. They satisfy the schemas of strict tools. They also satisfy the other schemas that have only
 * supported keywords, unless the grammar would then exceed the limits, or the format cannot enforce a keyword. Throws
 * like `toGbnf` for strict schemas, also for those that the format cannot enforce.
 */
export function toolGrammar(options: ToolGrammarOptions): string {
  const tools = options.tools.map((tool) => (isSupported(tool) ? { ...tool, strict: true } : tool));
  const enforced = new Set(options.tools.filter(({ strict }) => strict).map(({ name }) => name));
  try {
    return grammarOf({ ...options, tools }, enforced);
  } catch (error) {
    if (tools.every(({ strict }, index) => strict === options.tools[index]?.strict)) throw error;
    return grammarOf(options, enforced);
  }
}

/** Whether the grammar can follow the schema of a tool without an order that the model may not expect. */
function isSupported({ parameters }: Tool): boolean {
  try {
    checkJsonSchema(parameters, 'parameters');
    return (parameters as { type?: unknown }).type === 'object' && hasAnyOrder(parameters);
  } catch {
    return false;
  }
}

/** Whether the optional properties of each object in a schema can be in any order. */
function hasAnyOrder(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return true;
  const { properties, required } = schema as { properties?: unknown; required?: unknown };
  if (typeof properties === 'object' && properties !== null) {
    const needed: readonly unknown[] = Array.isArray(required) ? required : [];
    const members = Object.keys(properties).map((name) => ({ required: needed.includes(name) }));
    if (!isAnyOrder(members)) return false;
  }
  return Object.values(schema).every(hasAnyOrder);
}

/** `enforced`: names of the tools whose schemas are refused if the format cannot enforce them. */
function grammarOf(options: ToolGrammarOptions, enforced: ReadonlySet<string>): string {
  const { format, parallel, target, before = '', alternative, opening } = options;
  const rules = new GrammarRules('tools');
  const schemas = new SchemaArguments(rules, options, enforced);
  const expressions = new CallGrammar({ rules, tools: options.tools, arguments: schemas, parallel });
  const call = format.grammar(expressions);
  if (target === 'call') {
    const leading = format.leadingGrammar?.(expressions);
    const callRule = leading === undefined ? call : `${call} | ${leading}`;
    return rules.render(before === '' ? callRule : `${literal(before)} (${callRule})`);
  }
  const name = rules.share(call);
  const more = parallel && format.repeats ? `(${format.separator} ${name})*` : '';
  const calls = `${format.preamble ?? ''} ${name} ${more}`.trim();
  return rules.render(alternative === undefined ? calls : `${calls} | ${alternative(rules)}`, opening);
}

/**
 * Creates the rules of arguments. For a strict tool, they follow its schema; otherwise, only the types of its
 * properties.
 */
class SchemaArguments {
  readonly #rules: GrammarRules;
  readonly #options: ToolGrammarOptions;
  readonly #enforced: ReadonlySet<string>;
  readonly #schemas = new Map<Tool, { grammar: SchemaGrammar; root: string }>();

  constructor(rules: GrammarRules, options: ToolGrammarOptions, enforced: ReadonlySet<string>) {
    this.#rules = rules;
    this.#enforced = enforced;
    this.#options = options;
  }

  object(tool: Tool): string {
    return tool.strict ? this.#schema(tool).root : 'object';
  }

  value(tool: Tool, argument: string): string {
    const { properties } = tool.parameters as { properties: Readonly<Record<string, JsonSchema>> };
    const schema = properties[argument] ?? true;
    if (tool.strict) {
      const rule = this.#schema(tool).grammar.rule(
        schema,
        `${this.#options.path(tool)}.properties.${argument}`,
      );
      return rule ?? 'value';
    }
    const type = typeof schema === 'object' ? schema.type : undefined;
    return JSON_RULES.find((name) => name === type) ?? 'value';
  }

  raw(tool: Tool, argument: string, end: string): RawRules {
    const { properties } = tool.parameters as { properties: Readonly<Record<string, JsonSchema>> };
    const path = `${this.#options.path(tool)}.properties.${argument}`;
    const { grammar } = this.#schema(tool);
    try {
      const raw = grammar.rawRules(properties[argument] ?? true, path);
      if (raw.text === null && raw.other === null) throw unsatisfiable(path);
      if (raw.conflict !== null)
        throw unenforceable(raw.conflict, 'the difference between strings and other values here');
      const value = raw.values.find(({ text }) => text.includes(end));
      if (value !== undefined) throw unenforceable(value.path, `strings that contain \`${end}\``);
      return raw;
    } catch (error) {
      const isUnsupported = error instanceof ServiceError && error.code === 'unsupported_parameter';
      if (this.#enforced.has(tool.name) || !isUnsupported) throw error;
      return ANY_TEXT;
    }
  }

  checkMembers(tool: Tool): void {
    if (!this.#enforced.has(tool.name)) return;
    const path = this.#options.path(tool);
    const { properties = {}, required = [] } = tool.parameters as {
      properties?: object;
      required?: readonly string[];
    };
    const keyword = ['enum', 'const', 'propertyNames'].find((name) => name in tool.parameters);
    if (keyword !== undefined)
      throw unenforceable(`${path}.${keyword}`, `\`${keyword}\` on the arguments object`);
    if (required.some((name) => !Object.hasOwn(properties, name)))
      throw unenforceable(`${path}.required`, 'arguments that are not in `properties`');
    const name = Object.keys(properties).find((each) => !WRITABLE_NAME.test(each));
    if (name !== undefined) throw unenforceable(`${path}.properties.${name}`, 'an argument with this name');
  }

  /**
   * Creates the rules of a tool's whole schema. This checks its limits even if only the rules of single values are
   * used.
   */
  #schema(tool: Tool): { grammar: SchemaGrammar; root: string } {
    const known = this.#schemas.get(tool);
    if (known !== undefined) return known;
    const { path, tokens } = this.#options;
    const grammar = new SchemaGrammar(tool.parameters, path(tool), this.#rules, tokens);
    const schema = { grammar, root: grammar.root() };
    this.#schemas.set(tool, schema);
    return schema;
  }
}

/**
 * Names that all formats can read. They have no character that ends a name or the arguments, and no white space at
 * either end.
 */
const WRITABLE_NAME = /^(?![\s)}])[^<>"':=\r\n]+(?<!\s)$/;

const ANY_TEXT: RawRules = { text: true, other: null, values: [], conflict: null };

function unenforceable(path: string, what: string) {
  const message = `This model's call format cannot enforce ${what}. Change the schema, or set \`strict\` to false.`;
  return schemaError('unsupported_parameter', path, message);
}

/** Types whose rules in `GrammarRules` have the same name. */
const JSON_RULES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'];
