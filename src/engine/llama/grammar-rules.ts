import { refuseSchema } from './grammar-keywords.ts';

/**
 * Bytes of one grammar. llama.cpp parses it twice, 40 to 80 ms for this much, beside a decode, whose end then waits.
 */
const MAX_GRAMMAR_BYTES = 192 * 1024;

/** llama.cpp writes bounded repetitions out, and refuses to from 2,000 on; longer ones are built of blocks this long. */
const BLOCK = 250;

/** Elements that all repetitions of one grammar may be written out to. */
const MAX_WRITTEN_OUT = 50_000;

/** Steps in which all expressions of one grammar become deterministic and are measured; about 0.3 µs each. */
const MAX_STEPS = 300_000;

/**
 * The rules of a grammar under construction, with those of plain JSON always among them. It bounds what
 * llama.cpp has to parse and keep, and throws 400 `invalid_value` with param `path` beyond.
 */
export class GrammarRules {
  readonly #path: string;
  readonly #lines: string[] = [...JSON_RULES];
  readonly #shared = new Map<string, string>();
  #bytes = JSON_RULES.reduce((bytes, line) => bytes + line.length, 0);
  #writtenOut = 0;
  #count = 0;
  #steps = MAX_STEPS;

  constructor(path: string) {
    this.#path = path;
  }

  /** A name to be defined later; what refers to itself needs it early. */
  reserve(): string {
    this.#count += 1;
    return `r${this.#count}`;
  }

  define(name: string, expression: string): void {
    const line = `${name} ::= ${expression}`;
    this.#bytes += Buffer.byteLength(line) + 1;
    if (this.#bytes > MAX_GRAMMAR_BYTES) {
      throw refuseSchema('invalid_value', this.#path, 'The schema is too large for constrained generation.');
    }
    this.#lines.push(line);
  }

  /** The name of a rule with this expression. Equal expressions share one rule. */
  share(expression: string): string {
    const known = this.#shared.get(expression);
    if (known !== undefined) return known;
    const name = this.reserve();
    this.#shared.set(expression, name);
    this.define(name, expression);
    return name;
  }

  /** `name` from `min` to `max` times, null for no upper bound; an expression, '' for never. */
  repeat(name: string, min: number, max: number | null): string {
    const exactly = this.#exactly(name, min);
    if (max === null) return `${exactly} ${name}*`.trim();
    return `${exactly} ${this.#upTo(name, max - min)}`.trim();
  }

  /** Takes from the work that expressions may take to become deterministic; false where it is used up. */
  spend(steps: number): boolean {
    this.#steps -= steps;
    return this.#steps >= 0;
  }

  /** The grammar as text. `root` is a rule's name. */
  render(root: string): string {
    return `${[`root ::= ${root}`, ...this.#lines].join('\n')}\n`;
  }

  #exactly(name: string, count: number): string {
    if (count === 0) return '';
    if (count <= BLOCK) return this.#writeOut(name, `{${count}}`, count);
    const blocks = Math.floor(count / BLOCK);
    const block = this.share(this.#exactly(name, BLOCK));
    return `${this.#exactly(block, blocks)} ${this.#exactly(name, count % BLOCK)}`.trim();
  }

  /** Longer ones nest, so that there is one way to read them: those of a whole number of blocks are shared. */
  #upTo(name: string, count: number): string {
    if (count === 0) return '';
    if (count <= BLOCK) return this.#writeOut(name, `{0,${count}}`, count);
    const outer = count % BLOCK || BLOCK;
    const inner = this.share(this.#upTo(name, count - outer));
    this.#writeOut(name, '', outer);
    return `${`(${name}`.repeat(outer)} ${inner}${')?'.repeat(outer)}`;
  }

  #writeOut(name: string, times: string, count: number): string {
    this.#writtenOut += count;
    if (this.#writtenOut > MAX_WRITTEN_OUT) {
      throw refuseSchema('invalid_value', this.#path, 'The schema has too many long bounded repetitions.');
    }
    return `${name}${times}`;
  }
}

/** `text` as a terminal of the grammar. */
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

/**
 * Plain JSON (RFC 8259). A `c` is one code point, so lengths are counted as JSON Schema counts them: an escaped
 * surrogate comes with its other half or not at all.
 */
const JSON_RULES: readonly string[] = [
  String.raw`value ::= object | array | string | number | boolean | null`,
  String.raw`object ::= "{" ws member ("," ws member)* ws "}" | "{}"`,
  String.raw`member ::= string ":" sp value`,
  String.raw`array ::= "[" ws value ("," ws value)* ws "]" | "[]"`,
  String.raw`string ::= "\"" c* "\""`,
  // Long repetitions write this name out.
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
