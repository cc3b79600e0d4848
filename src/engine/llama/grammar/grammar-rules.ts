import { type ErrorCode, ServiceError } from '../../../core/errors.ts';
import { numberValue } from '../../../json/exact-json.ts';
import type { JsonSchema } from '../../../core/generation.ts';
import type { JsonType } from '../../../json/json-schema.ts';

/** A schema that `checkJsonSchema` has checked, so that its keywords have the right types. */
export type SchemaObject = Exclude<JsonSchema, boolean>;

/** Returns the value of a keyword that `checkJsonSchema` has checked as a number. */
export function numberIn(schema: SchemaObject, keyword: string): number | undefined {
  return numberValue(schema[keyword]) as number | undefined;
}

/** Keywords that refer to other schemas. */
export const COMBINING_KEYWORDS = ['$ref', 'anyOf', 'oneOf', 'allOf'] as const;

/** The keywords of each type. They determine the types of a schema without `type`. */
export const KEYWORDS_OF_TYPE: Readonly<Partial<Record<JsonType, readonly string[]>>> = {
  object: ['properties', 'required', 'additionalProperties', 'propertyNames'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
};

/**
 * Maximum number of members of a union, values of an `enum`, or properties of an object. Each one costs time per token.
 */
export const MAX_BRANCHES = 250;

export function unsatisfiable(path: string) {
  return schemaError('invalid_value', path, 'No value can satisfy this schema.');
}

export function schemaError(code: ErrorCode, path: string, message: string): ServiceError {
  return new ServiceError(code, message, { param: path.slice(0, MAX_PATH_LENGTH) });
}

/** Maximum length of a path in an error, in UTF-16 code units. Paths contain property names from the request. */
const MAX_PATH_LENGTH = 300;

/** Maximum size of a grammar in bytes. llama.cpp parses it twice, which takes 40 to 80 ms and delays the step. */
const MAX_GRAMMAR_BYTES = 192 * 1024;

/**
 * Long repetitions are built from blocks of this size, because llama.cpp expands bounded repetitions and supports at
 * most 2,000 elements.
 */
const BLOCK_SIZE = 250;

/** Maximum number of elements to which the repetitions of a grammar expand in total. */
const MAX_EXPANDED_ELEMENTS = 50_000;

/** Budget for the automata of a grammar, in steps of about 0.3 µs. */
const AUTOMATON_BUDGET = 300_000;

/** Builds the rules of a grammar, including those of JSON. Throws 400 `invalid_value` if it exceeds the limits above. */
export class GrammarRules {
  readonly #path: string;
  readonly #lines: string[] = [...JSON_RULES];
  readonly #shared = new Map<string, string>();
  #bytes = JSON_RULES.reduce((bytes, line) => bytes + line.length, 0);
  #expandedElements = 0;
  #count = 0;
  #automatonBudget = AUTOMATON_BUDGET;

  constructor(path: string) {
    this.#path = path;
  }

  /** Returns a name to be defined later, for recursive rules. */
  reserve(): string {
    this.#count += 1;
    return `r${this.#count}`;
  }

  define(name: string, expression: string): void {
    const line = `${name} ::= ${expression}`;
    this.#bytes += Buffer.byteLength(line) + 1;
    if (this.#bytes > MAX_GRAMMAR_BYTES) {
      throw schemaError('invalid_value', this.#path, 'The schema is too large for constrained generation.');
    }
    this.#lines.push(line);
  }

  /** Returns the name of the rule with this expression. Equal expressions share a rule. */
  share(expression: string): string {
    const known = this.#shared.get(expression);
    if (known !== undefined) return known;
    const name = this.reserve();
    this.#shared.set(expression, name);
    this.define(name, expression);
    return name;
  }

  /** Returns an expression for `min` to `max` repetitions of `name`. If `max` is null, they are unbounded. */
  repeat(name: string, min: number, max: number | null): string {
    const exactly = this.#exactly(name, min);
    if (max === null) return `${exactly} ${name}*`.trim();
    return `${exactly} ${this.#upTo(name, max - min)}`.trim();
  }

  /** Deducts from the budget for automata. Returns false if it is exhausted. */
  spend(steps: number): boolean {
    this.#automatonBudget -= steps;
    return this.#automatonBudget >= 0;
  }

  /**
   * Returns the grammar in GBNF, with `root` as the start rule. It also allows any text that begins with `opening`,
   * unless that is ''.
   */
  render(root: string, opening = ''): string {
    const start = opening === '' ? root : `${root} | [ \\n]{0,2} ${literal(opening)} [^\\x00]*`;
    return `${[`root ::= ${start}`, ...this.#lines].join('\n')}\n`;
  }

  #exactly(name: string, count: number): string {
    if (count === 0) return '';
    if (count <= BLOCK_SIZE) return this.#expand(name, `{${count}}`, count);
    const blocks = Math.floor(count / BLOCK_SIZE);
    const block = this.share(this.#exactly(name, BLOCK_SIZE));
    return `${this.#exactly(block, blocks)} ${this.#exactly(name, count % BLOCK_SIZE)}`.trim();
  }

  /** Nests long repetitions, so that they are not ambiguous, and shares the rules of whole blocks. */
  #upTo(name: string, count: number): string {
    if (count === 0) return '';
    if (count <= BLOCK_SIZE) return this.#expand(name, `{0,${count}}`, count);
    const outer = count % BLOCK_SIZE || BLOCK_SIZE;
    const inner = this.share(this.#upTo(name, count - outer));
    this.#expand(name, '', outer);
    return `${`(${name}`.repeat(outer)} ${inner}${')?'.repeat(outer)}`;
  }

  #expand(name: string, times: string, count: number): string {
    this.#expandedElements += count;
    if (this.#expandedElements > MAX_EXPANDED_ELEMENTS) {
      throw schemaError('invalid_value', this.#path, 'The schema has too many long bounded repetitions.');
    }
    return `${name}${times}`;
  }
}

/** Formats `text` as a GBNF terminal. */
export function literal(text: string): string {
  return `"${text.replace(/["\\\n\r\t]/g, (character) => ESCAPES[character] ?? character)}"`;
}

const ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
};

/** Formats a character inside brackets in GBNF. */
export function inClass(code: number): string {
  const character = String.fromCodePoint(code);
  if (/[a-zA-Z0-9]/.test(character)) return character;
  return code < 0x100
    ? `\\x${code.toString(16).padStart(2, '0')}`
    : `\\U${code.toString(16).padStart(8, '0')}`;
}

/**
 * JSON (RFC 8259). `c` is one code point, because JSON Schema counts lengths in code points. Escaped surrogates
 * therefore occur only in pairs.
 */
const JSON_RULES: readonly string[] = [
  String.raw`value ::= object | array | string | number | boolean | null`,
  String.raw`object ::= "{" ws member ("," ws member)* ws "}" | "{}"`,
  String.raw`member ::= string ":" sp value`,
  String.raw`array ::= "[" ws value ("," ws value)* ws "]" | "[]"`,
  String.raw`string ::= "\"" c* "\""`,
  // A short name, because long repetitions repeat it.
  String.raw`c ::= plain | "\\" (["\\/bfnrt] | "u" unit)`,
  String.raw`plain ::= [^"\\\x00-\x1F]`,
  String.raw`unit ::= [0-9abcefABCEF] hex{3} | [dD] [0-7] hex{2} | [dD] [89abAB] hex{2} "\\u" [dD] [c-fC-F] hex{2}`,
  String.raw`hex ::= [0-9a-fA-F]`,
  String.raw`number ::= integer ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?`,
  String.raw`integer ::= "-"? ("0" | [1-9] [0-9]{0,14})`,
  String.raw`boolean ::= "true" | "false"`,
  String.raw`null ::= "null"`,
  String.raw`ws ::= (" " | "\n" [ \t]{0,20})?`,
  String.raw`sp ::= " "?`,
];
