import { createHash } from 'node:crypto';
import { ServiceError } from '../../../core/errors.ts';
import type { JsonSchema, ResponseFormat, Tool } from '../../../core/generation.ts';
import { Notes } from '../../../core/notes.ts';
import { mapSchemas, reducedSchema } from '../../../json/json-schema.ts';
import type { NativeGrammar } from '../native/sampler.ts';
import type { NativeModel } from '../native/model.ts';
import { GrammarRules, KEYWORDS_OF_TYPE } from '../grammar/grammar-rules.ts';
import { SchemaGrammar } from '../grammar/grammar-schema.ts';
import { TokenSample } from '../grammar/grammar-work.ts';
import { toolGrammar, type ToolGrammarOptions } from '../tool-calls/tool-grammar.ts';
import type { Vocabulary } from '../prompt/vocabulary.ts';

type ConstrainedFormat = Exclude<ResponseFormat, { type: 'text' }>;

/**
 * Returns a GBNF grammar (llama.cpp's notation, start rule `root`) for a response format.
 *
 * Every string of the grammar is JSON that satisfies the schema, but not vice versa: properties are in the order of
 * `memberList`; a schema with `properties` or `prefixItems` allows other members only if it also has `additionalProperties`
 * or `items`; white space is bounded, because small models would repeat it endlessly; numbers have at most 15 digits
 * before and 15 after the decimal point, but an integer with a bound can have 16.
 *
 * `place`: what surrounds the JSON.
 *
 * Throws 400 `unsupported_parameter` or `invalid_value` with the schema's path as `param` for unsupported schemas, and
 * for those whose grammar is too large (`grammar-rules.ts`) or too slow (`grammar-work.ts`). If the format is not strict,
 * the grammar instead ignores unsupported keywords, then constraints of strings and numbers, then the whole schema.
 */
export function toGbnf(format: ConstrainedFormat, tokens: TokenSample, place: AnswerPlace = BARE): string {
  return withSimplerFormats(format, (simpler) => {
    const rules = new GrammarRules(simpler.type === 'json_object' ? 'response_format' : SCHEMA_PATH);
    return rules.render(`${place.before} ${formatRule(simpler, rules, tokens)}`.trim(), place.opening);
  });
}

/** What a grammar allows beside an answer. */
export interface AnswerPlace {
  /** The grammar also allows any text that begins with this string. '': none. */
  opening: string;
  /** GBNF expression for what precedes the text of an answer. */
  before: string;
}

const BARE: AnswerPlace = { opening: '', before: '' };

/** Returns the grammar of a format or, if the format is not strict, of the most similar one that has a grammar. */
function withSimplerFormats(format: ConstrainedFormat, gbnf: (format: ConstrainedFormat) => string): string {
  if (format.type === 'json_object' || format.strict === true) return gbnf(format);
  const schema = reducedSchema(format.schema, SCHEMA_PATH, new Notes(), false);
  for (const simpler of [schema, withoutScalarKeywords(schema)]) {
    try {
      return gbnf({ ...format, schema: simpler });
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
    }
  }
  const isObject = typeof schema === 'object' && schema['type'] === 'object';
  return gbnf(isObject ? { type: 'json_object' } : { ...format, schema: true });
}

/** Returns a schema without constraints of strings and numbers. */
function withoutScalarKeywords(schema: unknown): JsonSchema {
  if (typeof schema !== 'object' || schema === null) return schema as JsonSchema; // A boolean.
  const members = Object.entries(schema).filter(([keyword]) => !SCALAR_KEYWORDS.has(keyword));
  return mapSchemas(members, '', withoutScalarKeywords);
}

const SCALAR_KEYWORDS: ReadonlySet<string> = new Set(
  (['string', 'number'] as const).flatMap((type) => KEYWORDS_OF_TYPE[type] ?? []),
);

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
  grammar(format: ResponseFormat, place = BARE): NativeGrammar | null {
    if (format.type === 'text') return null;
    const key = JSON.stringify([format, place]);
    return this.#get(key, 'response_format', () => toGbnf(format, this.#tokens, place));
  }

  /**
   * Like `grammar`, for an answer that must be one or more calls. If `alternative` is a constrained format, the answer
   * may be text in that format instead. Errors name `tools`.
   */
  calls(constraint: CallConstraint, alternative: ResponseFormat, place = BARE): NativeGrammar {
    const { format, tools, parallel } = constraint;
    const { opening, before } = place;
    const key = keyOf(['calls', format.name, tools, parallel, alternative, place]);
    const sample = this.#tokens;
    const options = { ...constraint, target: 'output' as const, opening, tokens: sample, path: schemaPath };
    return this.#get(key, 'tools', () =>
      alternative.type === 'text'
        ? toolGrammar(options)
        : withSimplerFormats(alternative, (simpler) =>
            toolGrammar({
              ...options,
              alternative: (rules) => `${before} ${formatRule(simpler, rules, sample)}`,
            }),
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
    const [oldest] = this.#cached.keys();
    if (oldest !== undefined && this.#cached.size > MAX_CACHED) this.#cached.delete(oldest);
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
