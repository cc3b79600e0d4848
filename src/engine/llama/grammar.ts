import { createHash } from 'node:crypto';
import { ServiceError } from '../../errors.ts';
import type { ResponseFormat, Tool } from '../../generation.ts';
import type { NativeGrammar, NativeModel } from './binding.ts';
import { GrammarRules } from './grammar-rules.ts';
import { SchemaGrammar } from './grammar-schema.ts';
import { TokenSample } from './grammar-work.ts';
import { toolGrammar, type ToolGrammarOptions } from './tool-calls/tool-grammar.ts';
import type { Vocabulary } from './vocabulary.ts';

type ConstrainedFormat = Exclude<ResponseFormat, { type: 'text' }>;

/**
 * Returns a GBNF grammar (llama.cpp's notation, start rule `root`) for a response format.
 *
 * Every string of the grammar is JSON that satisfies the schema, but not vice versa: properties are in the order of
 * `memberList`; a schema with `properties` or `prefixItems` allows other members only if it also has `additionalProperties`
 * or `items`; white space is bounded, because small models would repeat it endlessly; numbers have at most 15 digits
 * before and 15 after the decimal point, but an integer with a bound can have 16.
 *
 * The grammar also allows any text that begins with `opening`, unless that is ''.
 *
 * Throws 400 `unsupported_parameter` or `invalid_value` with the schema's path as `param` for unsupported schemas, and
 * for those whose grammar is too large (`grammar-rules.ts`) or too slow (`grammar-work.ts`).
 */
export function toGbnf(format: ConstrainedFormat, tokens: TokenSample, opening = ''): string {
  const rules = new GrammarRules(format.type === 'json_object' ? 'response_format' : SCHEMA_PATH);
  return rules.render(formatRule(format, rules, tokens), opening);
}

const SCHEMA_PATH = 'response_format.json_schema.schema';

function formatRule(format: ConstrainedFormat, rules: GrammarRules, tokens: TokenSample): string {
  if (format.type === 'json_object') return 'object';
  return new SchemaGrammar(format.schema, SCHEMA_PATH, rules, tokens).root();
}

/** The calls that a grammar allows. */
export type CallConstraint = Pick<ToolGrammarOptions, 'format' | 'tools' | 'parallel'>;

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
   * Returns the grammar in its initial state, or null if the format is not constrained. Copy it for each choice. Throws
   * like `toGbnf`, and 400 `invalid_value` at `response_format` if llama.cpp rejects the grammar.
   */
  grammar(format: ResponseFormat, opening = ''): NativeGrammar | null {
    if (format.type === 'text') return null;
    const key = opening + JSON.stringify(format.type === 'json_schema' ? format.schema : format.type);
    return this.#get(key, 'response_format', () => toGbnf(format, this.#tokens, opening));
  }

  /**
   * Like `grammar`, for an answer that must be one or more calls. If `alternative` is a constrained format, the answer
   * may be text in that format instead. Errors name `tools`.
   */
  calls(constraint: CallConstraint, alternative: ResponseFormat, opening = ''): NativeGrammar {
    const { format, tools, parallel } = constraint;
    const key = keyOf(['calls', format.name, tools, parallel, alternative, opening]);
    const sample = this.#tokens;
    const options = { ...constraint, target: 'output' as const, opening, tokens: sample, path: schemaPath };
    return this.#get(key, 'tools', () =>
      toolGrammar(
        alternative.type === 'text'
          ? options
          : { ...options, alternative: (rules) => formatRule(alternative, rules, sample) },
      ),
    );
  }

  /**
   * Like `calls`, for one call, or one list of calls, in an answer that is otherwise unconstrained. The grammar starts
   * with the text `before` the opening of the call.
   */
  call(constraint: CallConstraint, before: string): NativeGrammar {
    const key = keyOf(['call', constraint.format.name, constraint.tools, constraint.parallel, before]);
    const options = {
      ...constraint,
      target: 'call' as const,
      before,
      tokens: this.#tokens,
      path: schemaPath,
    };
    return this.#get(key, 'tools', () => toolGrammar(options));
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

/**
 * Returns the path of a tool's schema, for errors. The path contains the tool's name, because its index in the request
 * is unknown if only some tools are offered.
 */
function schemaPath({ name }: Tool): string {
  return `tools[${name}].function.parameters`;
}

/** Returns a hash, because tools can be a megabyte long. */
function keyOf(parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64');
}
