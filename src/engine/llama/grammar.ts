import { createHash } from 'node:crypto';
import { ServiceError } from '../../errors.ts';
import type { JsonSchema, ResponseFormat, Tool } from '../../generation.ts';
import type { NativeGrammar, NativeModel } from './binding.ts';
import { GrammarRules, literal } from './grammar-rules.ts';
import { SchemaGrammar } from './grammar-schema.ts';
import { TokenSample } from './grammar-work.ts';
import type { CallGrammarOptions } from './tool-calls/call-grammar.ts';
import { callRule, callsRule } from './tool-calls/call-rules.ts';
import type { ToolFormat } from './tool-calls/tool-format.ts';
import type { Vocabulary } from './vocabulary.ts';

type ConstrainedFormat = Exclude<ResponseFormat, { type: 'text' }>;

/**
 * Returns a GBNF grammar (llama.cpp's notation, start rule `root`) for a response format.
 *
 * Every string of the grammar is JSON that satisfies the schema, but not vice versa: properties are in the order of the
 * schema; `properties` and `prefixItems` exclude others unless the schema mentions them; white space is bounded, because
 * small models would repeat it endlessly; numbers have at most 15 digits before and after the point.
 *
 * Throws 400 `unsupported_parameter` or `invalid_value` with the schema's path as `param` for unsupported schemas, and
 * for those whose grammar is too large (`grammar-rules.ts`) or too slow (`grammar-work.ts`).
 */
export function toGbnf(format: ConstrainedFormat, tokens: TokenSample): string {
  const rules = new GrammarRules(format.type === 'json_object' ? 'response_format' : SCHEMA_PATH);
  return rules.render(formatRule(format, rules, tokens));
}

const SCHEMA_PATH = 'response_format.json_schema.schema';

function formatRule(format: ConstrainedFormat, rules: GrammarRules, tokens: TokenSample): string {
  if (format.type === 'json_object') return 'object';
  return new SchemaGrammar(format.schema, SCHEMA_PATH, rules, tokens).root();
}

/** Which calls a grammar allows. */
export interface CallConstraint {
  format: ToolFormat;
  /** The tools that may be called, at least one. */
  tools: readonly Tool[];
  parallel: boolean;
}

/** Returns a grammar for one or more calls. With `alternative`, the text can have that format instead. */
function callsGbnf(constraint: CallConstraint, alternative: ResponseFormat, tokens: TokenSample): string {
  const rules = new GrammarRules('tools');
  const calls = callsRule(constraint.format, grammarOptions(constraint, rules, tokens));
  if (alternative.type === 'text') return rules.render(calls);
  return rules.render(`${calls} | ${formatRule(alternative, rules, tokens)}`);
}

/** Returns a grammar for `before`, an opening, and the rest of its call. */
function callGbnf(constraint: CallConstraint, before: string, tokens: TokenSample): string {
  const rules = new GrammarRules('tools');
  const call = callRule(constraint.format, grammarOptions(constraint, rules, tokens));
  return rules.render(`${before === '' ? '' : literal(before)} ${call}`.trim());
}

function grammarOptions(
  { tools, parallel }: CallConstraint,
  rules: GrammarRules,
  tokens: TokenSample,
): CallGrammarOptions {
  const schemaRule = (schema: JsonSchema, { name }: Tool): string =>
    new SchemaGrammar(schema, `tools.${name}.parameters`, rules, tokens).root();
  return {
    rules,
    tools,
    parallel,
    arguments: {
      object: (tool) => (tool.strict ? schemaRule(tool.parameters, tool) : 'object'),
      value: (tool, argument) => {
        const { properties } = tool.parameters;
        if (!tool.strict || typeof properties !== 'object' || properties === null) return 'value';
        // The schema was checked, so its properties are schemas. References start at the root.
        const { $defs } = tool.parameters;
        const schema = (properties as Record<string, JsonSchema>)[argument] ?? true;
        if (typeof schema === 'boolean' || $defs === undefined) return schemaRule(schema, tool);
        return schemaRule({ ...schema, $defs }, tool);
      },
    },
  };
}

const MAX_CACHED = 32;

/** Caches compiled grammars, so that schemas and tools sent with every request are compiled once. */
export class GrammarCache {
  readonly #model: NativeModel;
  readonly #tokens: TokenSample;
  readonly #cached = new Map<string, NativeGrammar>();

  constructor(model: NativeModel, vocabulary: Vocabulary) {
    this.#model = model;
    this.#tokens = new TokenSample(vocabulary.size, (token) => vocabulary.tokenText(token));
  }

  /**
   * Returns the grammar in its initial state, to be copied for each choice; null: no constraint. Throws as `toGbnf`, and
   * 400 `invalid_value` at `response_format` if llama.cpp rejects the grammar.
   */
  grammar(format: ResponseFormat): NativeGrammar | null {
    if (format.type === 'text') return null;
    const key = JSON.stringify(format.type === 'json_schema' ? format.schema : format.type);
    return this.#get(key, 'response_format', () => toGbnf(format, this.#tokens));
  }

  /** As `grammar`, for one or more calls, or text in the format `alternative`. Errors name `tools`. */
  calls(constraint: CallConstraint, alternative: ResponseFormat): NativeGrammar {
    const key = keyOf(['calls', constraint.format.name, constraint.tools, constraint.parallel, alternative]);
    return this.#get(key, 'tools', () => callsGbnf(constraint, alternative, this.#tokens));
  }

  /** As `calls`, for the text `before` an opening, the opening, and the rest of its call. */
  call(constraint: CallConstraint, before: string): NativeGrammar {
    const key = keyOf(['call', constraint.format.name, constraint.tools, constraint.parallel, before]);
    return this.#get(key, 'tools', () => callGbnf(constraint, before, this.#tokens));
  }

  #get(key: string, param: string, gbnf: () => string): NativeGrammar {
    const grammar = this.#cached.get(key) ?? this.#compile(gbnf(), param);
    // The first entry of the map is the least recently used one.
    this.#cached.delete(key);
    this.#cached.set(key, grammar);
    for (const oldest of this.#cached.keys()) {
      if (this.#cached.size <= MAX_CACHED) break;
      this.#cached.delete(oldest);
    }
    return grammar;
  }

  #compile(gbnf: string, param: string): NativeGrammar {
    const grammar = this.#model.grammar(gbnf);
    if (grammar !== null) return grammar;
    throw new ServiceError(
      'invalid_value',
      `\`${param}\`: the schema is too large for constrained generation.`,
      { param },
    );
  }
}

/** Tools can have a megabyte, so their hash is the key. */
function keyOf(parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64');
}
