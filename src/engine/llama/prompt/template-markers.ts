import { randomInt } from 'node:crypto';
import { isRawNumber } from '../../../json/exact-json.ts';
import { escapeJson } from '../../../json/values.ts';

/** A part of a prompt. */
export interface TemplateSegment {
  text: string;
  /** Whether special tokens are recognized: true for the template's own text, false for the caller's. */
  trusted: boolean;
}

/**
 * Replaces the caller's texts in one chat with markers before the template renders it, and replaces the markers in the
 * template's output with the texts.
 *
 * A message content is cut around the strings that the template searches for. Each piece becomes a marker with
 * private-use characters; the searched strings and white space stay as they are: `"  <think>a</think>\nb "` becomes
 * `"  ①<think>②</think>\n③ "`. Apart from such strings, white space and identifiers, no text of a user
 * is passed to the template, so users cannot forge markers.
 *
 * A tool result becomes one marker, as does each string in arguments and tool definitions. Tags of the enclosing
 * elements are escaped in these texts, so that a text cannot end the element that it is in.
 *
 * A marker contains a quotation mark. Its form in the output (`"`, `\"`, `\\\"`) shows how often the template encoded
 * the text as JSON, and the text is encoded in the same way.
 */
export class MarkedTexts {
  readonly #literals: RegExp | null;
  readonly #pieces: Piece[] = [];
  /** The texts of numbers that a double does not keep. */
  readonly #numbers: string[] = [];
  #numberBase: number | null = null;
  /** The pieces that are in the template's output. */
  readonly #found = new Set<Piece>();
  /**
   * Markers by text. Equal texts have the same marker, because templates compare values, such as a parameter's name
   * with the required names.
   */
  readonly #values = new Map<string, { marker: string; piece: Piece }>();

  /** `literals` matches the strings that stay visible, from `searchedLiterals`. */
  constructor(literals: RegExp | null) {
    this.#literals = literals;
  }

  /**
   * Returns `content` with markers. Blank contents are unchanged, because templates check whether they are empty.
   * `path`: the field of the request that is missing if the template leaves out a part of the content; null if it may.
   * Of an answer of the model, only the last part is required, because templates remove the reasoning before it.
   */
  content(content: string, path: string | null, { isAnswer = false } = {}): string {
    const start = content.length - content.trimStart().length;
    if (start === content.length) return content;
    const end = content.trimEnd().length;
    const cuts = this.#cut(content, start, end);
    const marked = cuts.map((cut, index) => {
      const isRequired = cut.text !== '' && (!isAnswer || index === cuts.length - 1);
      const piece = { ...cut, element: false, key: false, path: isRequired ? path : null };
      return `${this.#add(piece)}${cut.after}`;
    });
    return content.slice(0, start) + marked.join('');
  }

  /** Replaces a tool result with one marker. White space at both ends stays visible. For `path`, see `content`. */
  result(content: string, path: string): string {
    const start = content.length - content.trimStart().length;
    if (start === content.length) return content;
    const text = content.trim();
    const after = content.slice(start + text.length);
    return `${content.slice(0, start)}${this.#add({ text, after, element: true, key: false, path })}${after}`;
  }

  /**
   * Replaces the keys and strings of a JSON value with markers. Identifiers are unchanged, because templates compare
   * them. For `path`, see `content`.
   */
  value(value: unknown, path: string | null = null): unknown {
    if (typeof value === 'string') return this.#mark(value, path).marker;
    if (Array.isArray(value)) return value.map((item) => this.value(item, path));
    if (typeof value !== 'object' || value === null) return value;
    if (isRawNumber(value)) return this.#markNumber(value.rawJSON);
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [this.key(key, path), this.value(item, path)]),
    );
  }

  /**
   * Replaces a number with another one, which templates write as it is. The first digits are random, so that no other text
   * can have them.
   */
  #markNumber(text: string): number {
    this.#numberBase ??= randomInt(1e9, 9e9);
    return this.#numberBase * MAX_NUMBERS + (this.#numbers.push(text) - 1);
  }

  /** Returns the template's output with the numbers as the caller wrote them. */
  #withNumbers(output: string): string {
    if (this.#numberBase === null) return output;
    const marker = new RegExp(`${this.#numberBase}(\\d{6})(?:\\.0)?`, 'g');
    return output.replace(marker, (found, index: string) => this.#numbers[Number(index)] ?? found);
  }

  /** Returns the marker of a key, or of another text that may be part of a tag. Identifiers are unchanged. */
  key(key: string, path: string | null = null): string {
    const { marker, piece } = this.#mark(key, path);
    if (piece !== null) piece.key = true;
    return marker;
  }

  /** Returns a marker without text, to be put into a text of the template's that must not be left out. */
  required(path: string): string {
    return this.#add({ text: '', after: '', element: false, key: false, path });
  }

  #mark(text: string, path: string | null): { marker: string; piece: Piece | null } {
    if (HARMLESS.test(text)) return { marker: text, piece: null };
    const known = this.#values.get(text);
    if (known !== undefined) {
      known.piece.path ??= path;
      return known;
    }
    const piece = { text, after: '', element: true, key: false, path };
    const added = { marker: this.#add(piece), piece };
    this.#values.set(text, added);
    return added;
  }

  /** Returns a message of the template, such as an error, with the caller's texts in place of their markers. */
  restore(message: string): string {
    return message.replace(
      MARKER,
      (_marker, _open, index: string) => this.#pieces[Number(index)]?.text ?? '',
    );
  }

  /**
   * Returns the path of a required text that is not in the output, or null if there is none. Call it after `split`.
   */
  missing(): string | null {
    return this.#pieces.find((piece) => piece.path !== null && !this.#found.has(piece))?.path ?? null;
  }

  #add(piece: Piece): string {
    return `${OPEN}${this.#pieces.push(piece) - 1}"${CLOSE}`;
  }

  /**
   * Splits the template's output into segments. Returns null if the template changed or cut a marker. The template may
   * omit or repeat markers.
   */
  split(rendered: string): TemplateSegment[] | null {
    const output = this.#withNumbers(rendered);
    const segments = new SegmentList();
    const elements = new OpenElements();
    let at = 0;
    for (const found of output.matchAll(MARKER)) {
      const { 0: marker, 1: begin, 2: index = '', 3: slashes = '', index: open } = found;
      const piece = this.#pieces[Number(index)];
      const depth = DEPTHS.get(slashes.length);
      const between = output.slice(at, open);
      if (piece === undefined || depth === undefined || PART_OF_MARKER.test(between)) return null;
      this.#found.add(piece);
      // White space before a text belongs to the text, because tokens often begin with white space.
      const trimmed = between.trimEnd();
      segments.add(trimmed, true);
      elements.read(between);
      segments.add(between.slice(trimmed.length), false);
      const encoding = { depth, ascii: begin !== OPEN };
      segments.add(escaped(piece, encoding, elements), false);
      at = open + marker.length;
      const after = escapeFor(encoding, piece.after, null);
      if (output.startsWith(after, at)) {
        segments.add(after, false);
        at += after.length;
      }
    }
    const rest = output.slice(at);
    if (PART_OF_MARKER.test(rest)) return null;
    segments.add(rest, true);
    return segments.list;
  }

  /** Cuts `content` at the literals. White space around a literal stays visible. */
  #cut(content: string, start: number, end: number): Cut[] {
    const pieces: Cut[] = [];
    let from = start;
    for (const { 0: literal, index } of this.#literals === null ? [] : content.matchAll(this.#literals)) {
      const text = content.slice(from, index).trimEnd();
      const resume = Math.min(end, endOfWhiteSpace(content, index + literal.length));
      pieces.push({ text, after: content.slice(from + text.length, resume) });
      from = resume;
      if (pieces.length === MAX_LITERALS) break;
    }
    pieces.push({ text: content.slice(from, end), after: content.slice(end) });
    return pieces;
  }
}

function escaped({ text, element, key }: Piece, encoding: Encoding, elements: OpenElements): string {
  if (key && encoding.depth === 0) return escapeRawKey(text);
  return escapeFor(encoding, text, element ? elements.tags : null);
}

/** Maximum numbers with a marker. Every marker is a safe integer. */
const MAX_NUMBERS = 1e6;

/** Maximum literals that stay visible in one content, to bound the time of the template. */
const MAX_LITERALS = 1000;

/** A piece of a message content. */
interface Cut {
  /** Replaced by the marker; may be empty. */
  text: string;
  /** The visible text up to the next marker or the end. */
  after: string;
}

interface Piece extends Cut {
  /** Whether the text may be inside an element whose tags it must not contain. */
  element: boolean;
  /** Whether the text may be part of a tag. */
  key: boolean;
  /** The field of the request that would be missing without the text; null if the template may leave it out. */
  path: string | null;
}

/** Private-use characters at both ends of a marker. */
const OPEN = '\uE0F0';
const CLOSE = '\uE0F1';
/** Also matches markers whose private-use characters were escaped as JSON. */
const MARKER = /(\uE0F0|\\ue0f0)(\d+)(\\*)"(?:\uE0F1|\\ue0f1)/g;
const PART_OF_MARKER = /\uE0F0|\uE0F1|\\ue0f[01]/;

/** How often a text was encoded as JSON, by the number of backslashes before the quotation mark of its marker. */
const DEPTHS: ReadonlyMap<number, number> = new Map([
  [0, 0],
  [1, 1],
  [3, 2],
  [7, 3],
]);

/** Identifiers and blank texts, which are passed to the template unchanged. They cannot form tags or control tokens. */
const HARMLESS = /^(?:[\w$.-]*|\s*)$/;

function endOfWhiteSpace(text: string, from: number): number {
  const space = /\s*/y;
  space.lastIndex = from;
  return from + (space.exec(text)?.[0].length ?? 0);
}

/** Joins adjacent segments of the same kind. */
class SegmentList {
  readonly list: TemplateSegment[] = [];

  add(text: string, trusted: boolean): void {
    const last = this.list.at(-1);
    if (text === '') return;
    if (last?.trusted === trusted) last.text += text;
    else this.list.push({ text, trusted });
  }
}

/**
 * Returns an expression for the strings that a template searches for: the left operand of `in` and arguments of methods
 * such as `split`. Longer strings come first. Blank strings are not included, because they are visible anyway. Returns
 * null if there are none.
 */
export function searchedLiterals(program: object): RegExp | null {
  const literals = new Set<string>();
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(visit);
    if (typeof node !== 'object' || node === null) return;
    for (const literal of literalsOf(node)) if (literal.trim() !== '') literals.add(literal);
    Object.values(node).forEach(visit);
  };
  visit(program);
  if (literals.size === 0) return null;
  const longestFirst = [...literals].sort((a, b) => b.length - a.length);
  return new RegExp(longestFirst.map((literal) => RegExp.escape(literal)).join('|'), 'g');
}

const SEARCH_METHODS = new Set(['split', 'rsplit', 'startswith', 'endswith', 'replace', 'partition', 'find']);

/** The relevant fields of a node of the parsed template. */
interface TemplateNode {
  type?: string;
  value?: unknown;
  operator?: { value?: unknown };
  left?: TemplateNode;
  callee?: TemplateNode;
  property?: TemplateNode;
  args?: readonly TemplateNode[];
}

function literalsOf(node: TemplateNode): string[] {
  const operands: TemplateNode[] = [];
  const operator = node.operator?.value;
  if (node.type === 'BinaryExpression' && (operator === 'in' || operator === 'not in') && node.left) {
    operands.push(node.left);
  }
  const method = node.type === 'CallExpression' ? node.callee?.property?.value : undefined;
  if (typeof method === 'string' && SEARCH_METHODS.has(method)) operands.push(...(node.args ?? []));
  return operands.flatMap(({ type, value }) =>
    type === 'StringLiteral' && typeof value === 'string' ? [value] : [],
  );
}

/** Tracks the elements that are open in the text of a template, such as `<tool_call>` and `<parameter=key>`. */
class OpenElements {
  readonly #names: string[] = [];
  #tags: RegExp | null = null;

  /** Reads a part of the template's text. Control tokens such as `<|im_end|>` are not tags. */
  read(text: string): void {
    for (const [, slash, name = ''] of text.matchAll(/<(\/?)([a-z_][\w:.-]*)(?=[\s>=])/gi)) {
      if (slash === '') this.#names.push(name);
      else if (this.#names.includes(name)) this.#names.length = this.#names.lastIndexOf(name);
      this.#tags = null;
    }
  }

  /** Matches the `<` in tags of the open elements. Null if no element is open. */
  get tags(): RegExp | null {
    if (this.#names.length === 0) return null;
    if (this.#tags !== null) return this.#tags;
    const names = [...new Set(this.#names)].map((name) => RegExp.escape(name));
    this.#tags = new RegExp(String.raw`<(?=/?(?:${names.join('|')})(?![\w:.-]))`, 'gi');
    return this.#tags;
  }
}

/** The encoding of a text in the output of a template. */
interface Encoding {
  /** How often it was encoded as JSON. */
  depth: number;
  /** Whether JSON escapes all characters outside ASCII. */
  ascii: boolean;
}

/**
 * Escapes a text for its place in the output of a template. `tags` matches the tags that the text must not contain;
 * null if it may contain any. In JSON, the `<` of such a tag becomes `\u003c`, elsewhere `&lt;`.
 */
function escapeFor({ depth, ascii }: Encoding, text: string, tags: RegExp | null): string {
  if (depth === 0) return tags === null ? text : text.replace(tags, '&lt;');
  let encoded = escapeJson(text);
  if (tags !== null) encoded = encoded.replace(tags, String.raw`\u003c`);
  if (ascii) encoded = encoded.replace(/[\x7f-\uffff]/g, unicodeEscape);
  for (let i = 1; i < depth; i++) encoded = escapeJson(encoded);
  return encoded;
}

/** Escapes a key outside JSON, where it can be part of a tag, as in `<parameter=key>`. */
function escapeRawKey(key: string): string {
  return key.replace(/[<>"]/g, (character) => ENTITIES[character] ?? character);
}

const ENTITIES: Readonly<Record<string, string>> = { '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function unicodeEscape(codeUnit: string): string {
  return `\\u${codeUnit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
