import type { Tool } from '../../../core/generation.ts';
import { asList, jsonObject } from '../../../json/values.ts';
import { type GrammarRules, inClass, literal } from '../grammar/grammar-rules.ts';
import { memberList, type RawRules } from '../grammar/grammar-schema.ts';
import { fallbackTable } from './sequence-matcher.ts';
import { ArgumentTypes } from './argument-types.ts';

/** Names of the rules for arguments in JSON. */
export interface ArgumentRules {
  /** Returns the rule for the JSON object with all arguments of a tool. */
  object(tool: Tool): string;
  /** Returns the rule for the value of one argument. */
  value(tool: Tool, argument: string): string;
  /** Returns the rules for an argument of a strict tool in a format that writes strings as raw text before `end`. */
  raw(tool: Tool, argument: string, end: string): RawRules;
  /** Throws if arguments that are written one by one cannot always satisfy the schema of a strict tool. */
  checkMembers(tool: Tool): void;
}

export interface CallGrammarOptions {
  rules: GrammarRules;
  /** The tools that may be called, at least one. */
  tools: readonly Tool[];
  arguments: ArgumentRules;
  /** Whether there may be several calls, if the format allows it. */
  parallel: boolean;
}

/** Names of the members of a call in JSON. */
export interface CallKeys {
  name: string;
  arguments: string;
}

/** Expressions for values in the notation of a format. */
interface Notation {
  any: string;
  string: string;
  /** The text before and after a string that has no escapes. Null if all strings can be written as in JSON. */
  rawQuote: string | null;
}

/** Builds the GBNF expressions of a format. */
export class CallGrammar {
  readonly rules: GrammarRules;
  readonly #tools: readonly Tool[];
  readonly #arguments: ArgumentRules;
  readonly #parallel: boolean;
  readonly #types: ArgumentTypes;
  readonly #textUntil = new Map<string, string>();

  constructor(options: CallGrammarOptions) {
    this.rules = options.rules;
    this.#tools = options.tools;
    this.#arguments = options.arguments;
    this.#parallel = options.parallel;
    this.#types = new ArgumentTypes(options.tools);
  }

  /** Returns an expression for a call of one of the tools. */
  anyTool(expression: (tool: Tool) => string): string {
    return this.rules.share(this.#tools.map((tool) => expression(tool)).join(' | '));
  }

  /** Returns an expression for one element, or several if parallel calls are allowed. */
  list(element: string, separator: string): string {
    return this.#parallel ? `${element} (${separator} ${element})*` : element;
  }

  /** Returns an expression for all arguments as a JSON object. */
  object(tool: Tool): string {
    return this.#arguments.object(tool);
  }

  /**
   * Returns an expression for a call such as `{"name": "f", "arguments": {}}`, with these keys. `before` and `after`:
   * expressions for additional members, including their commas. `space`: expression for the white space after the `{`.
   */
  jsonCall(keys: CallKeys, { before = '', after = '', space = 'ws' } = {}): string {
    const [name, values] = [jsonLiteral(keys.name), jsonLiteral(keys.arguments)];
    const call = this.anyTool(
      (tool) => `${jsonLiteral(tool.name)} "," ws ${values} ":" sp ${this.object(tool)}`,
    );
    return `"{" ${space} ${before} ${name} ":" sp ${call} ${after} ws "}"`;
  }

  /**
   * Returns an expression for arguments that the format writes one by one: in the order of `memberList` if the tool is
   * strict, otherwise in any order. A tool without properties has no arguments.
   */
  members(tool: Tool, member: (argument: string) => string, separator = ''): string {
    if (tool.strict) this.#arguments.checkMembers(tool);
    const properties = jsonObject(tool.parameters.properties);
    const names = Object.keys(properties);
    if (names.length === 0) return '""';
    if (tool.strict) {
      const required = new Set(asList(tool.parameters.required));
      const members = names.map((name) => ({
        expression: this.rules.share(member(name)),
        required: required.has(name),
      }));
      const list = memberList(this.rules, members, separator);
      return members.some((each) => each.required) ? `${list}` : `(${list})?`;
    }
    const any = this.rules.share(names.map((name) => member(name)).join(' | '));
    return separator === '' ? `${any}*` : `(${any} (${separator} ${any})*)?`;
  }

  /**
   * Returns an expression for a value, then `before`, then `end`. The value is raw text if it is a string, otherwise
   * JSON. A parser must not require `before`.
   */
  rawValue(tool: Tool, argument: string, end: string, before = ''): string {
    const after = literal(before + end);
    if (!tool.strict) {
      const isText = this.#types.of(tool.name, argument).has('string');
      return isText ? this.textUntil(end) : `${this.#arguments.value(tool, argument)} ${after}`;
    }
    const { text, other } = this.#arguments.raw(tool, argument, end);
    if (text === true) return this.textUntil(end);
    const rules = [text, other].filter((rule) => rule !== null);
    return `${this.rules.share(rules.join(' | '))} ${after}`;
  }

  /** Returns an expression for a value in a notation that also allows JSON. */
  literalValue(tool: Tool, argument: string, notation: Notation): string {
    const types = this.#types.of(tool.name, argument);
    const isString = types.has('string') && types.size === 1;
    if (!tool.strict) return isString ? notation.string : notation.any;
    if (!isString || notation.rawQuote === null) return this.#arguments.value(tool, argument);
    const { text } = this.#arguments.raw(tool, argument, notation.rawQuote);
    if (text === null || text === true) return notation.string;
    const quote = literal(notation.rawQuote);
    return `${quote} ${text} ${quote}`;
  }

  /** Returns an expression for any text up to and including the first `end`. */
  textUntil(end: string): string {
    const name = this.#textUntil.get(end) ?? this.#createTextUntil(end);
    this.#textUntil.set(end, name);
    return name;
  }

  #createTextUntil(end: string): string {
    const characters = Array.from(end);
    const fallback = fallbackTable(characters.join(''));
    const distinct = [...new Set(characters)];
    const names = characters.map(() => this.rules.reserve());
    const afterMismatch = (length: number, character: string): number => {
      let matched = length;
      while (matched > 0 && characters[matched] !== character) matched = fallback[matched - 1] ?? 0;
      return characters[matched] === character ? matched + 1 : 0;
    };
    const others = `[^${distinct.map(classOf).join('')}]`;
    for (const [length, name] of names.entries()) {
      const branches = distinct.map(
        (character) => `[${classOf(character)}] ${names[afterMismatch(length, character)] ?? '""'}`,
      );
      this.rules.define(name, [`${others} ${names[0]}`, ...branches].join(' | '));
    }
    return names[0] ?? '""';
  }
}

/** Returns a GBNF terminal for the JSON string of a text. */
function jsonLiteral(text: string): string {
  return literal(JSON.stringify(text));
}

function classOf(character: string): string {
  return inClass(character.codePointAt(0) ?? 0);
}
