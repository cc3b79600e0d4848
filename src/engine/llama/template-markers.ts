/** A part of a prompt. */
export interface TemplateSegment {
  text: string;
  /** Whether it is text of the template, in which special tokens are recognized, and not of a message. */
  trusted: boolean;
}

/**
 * Replaces the contents of one chat by markers for the template, and the markers in its output by the contents.
 *
 * Each content is cut around the strings that the template searches for. Each piece becomes a marker of private-use
 * characters; the searched strings and white space stay as they are: `"  <think>a</think>\nb "` becomes
 * `"  ①<think>②</think>\n③ "`. No other text of a user is passed to the template, so users cannot forge markers.
 */
export class MarkedContents {
  readonly #literals: RegExp | null;
  readonly #pieces: Piece[] = [];

  /** `literals` matches the strings that stay visible, from `searchedLiterals`. */
  constructor(literals: RegExp | null) {
    this.#literals = literals;
  }

  /** Returns `content` with markers. Blank contents are unchanged, because templates check whether they are empty. */
  mark(content: string): string {
    const start = content.length - content.trimStart().length;
    if (start === content.length) return content;
    const end = content.trimEnd().length;
    let marked = content.slice(0, start);
    for (const piece of this.#cut(content, start, end)) {
      marked += `${OPEN}${this.#pieces.length}${CLOSE}${piece.after}`;
      this.#pieces.push(piece);
    }
    return marked;
  }

  /** Splits the template's output into segments; null: it split a marker. The template may omit or repeat contents. */
  split(output: string): TemplateSegment[] | null {
    const segments = new SegmentList();
    let at = 0;
    for (let open = output.indexOf(OPEN); open !== -1; open = output.indexOf(OPEN, at)) {
      const close = output.indexOf(CLOSE, open);
      const piece = this.#pieces[Number.parseInt(output.slice(open + 1, close), 10)];
      const between = output.slice(at, open);
      if (close === -1 || piece === undefined || between.includes(CLOSE)) return null;
      // White space belongs to the content after it, because they form common tokens.
      const trimmed = between.trimEnd();
      segments.add(trimmed, true);
      segments.add(between.slice(trimmed.length), false);
      segments.add(piece.text, false);
      at = close + 1;
      if (output.startsWith(piece.after, at)) {
        segments.add(piece.after, false);
        at += piece.after.length;
      }
    }
    const rest = output.slice(at);
    if (rest.includes(CLOSE)) return null;
    segments.add(rest, true);
    return segments.list;
  }

  /** Cuts `content` at the literals. White space around a literal stays visible. */
  #cut(content: string, start: number, end: number): Piece[] {
    const pieces: Piece[] = [];
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

/** Maximum literals that stay visible in one content, to bound the time of the template. */
const MAX_LITERALS = 1000;

/** A part of a content. */
interface Piece {
  /** Replaced by the marker; may be empty. */
  text: string;
  /** The visible text up to the next marker or the end. */
  after: string;
}

/** Private-use characters. */
const OPEN = '\uE0F0';
const CLOSE = '\uE0F1';

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
 * such as `split`. Longest first; null: none. Does not include blank strings, which are visible anyway.
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
