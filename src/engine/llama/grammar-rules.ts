import { refuseSchema } from './grammar-keywords.ts';

/**
 * Bytes of one grammar. The schema may come from an enemy, and llama.cpp parses its grammar twice, some 40 ms for this
 * much, beside a decode, whose end then waits.
 */
const MAX_GRAMMAR_BYTES = 128 * 1024;

/** llama.cpp writes bounded repetitions out, and refuses to from 2,000 on; longer ones are built of blocks this long. */
const BLOCK = 250;

/** Elements that all repetitions of one grammar may be written out to. */
const MAX_WRITTEN_OUT = 50_000;

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

  #upTo(name: string, count: number): string {
    if (count === 0) return '';
    if (count <= BLOCK) return this.#writeOut(name, `{0,${count}}`, count);
    const blocks = Math.floor(count / BLOCK);
    const block = this.share(this.#exactly(name, BLOCK));
    const fewer = `${this.#upTo(block, blocks - 1)} ${this.#upTo(name, BLOCK - 1)}`;
    const most = `${this.#exactly(block, blocks)} ${this.#upTo(name, count % BLOCK)}`;
    return this.share(`${fewer} | ${most}`);
  }

  #writeOut(name: string, times: string, count: number): string {
    this.#writtenOut += count;
    if (this.#writtenOut > MAX_WRITTEN_OUT) {
      throw refuseSchema('invalid_value', this.#path, 'The schema bounds too many long repetitions.');
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
 * Plain JSON (RFC 8259). A `char` is one code point, so lengths are counted as JSON Schema counts them: an escaped
 * surrogate comes with its other half or not at all.
 */
const JSON_RULES: readonly string[] = [
  String.raw`value ::= object | array | string | number | boolean | null`,
  String.raw`object ::= "{" ws member ("," ws member)* ws "}" | "{}"`,
  String.raw`member ::= string ":" sp value`,
  String.raw`array ::= "[" ws value ("," ws value)* ws "]" | "[]"`,
  String.raw`string ::= "\"" char* "\""`,
  String.raw`char ::= plain | "\\" (["\\/bfnrt] | "u" unit)`,
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
