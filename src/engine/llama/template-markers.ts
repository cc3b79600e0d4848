/** A stretch of a prompt. Where it is not trusted, no special token may be read from it. */
export interface TemplateSegment {
  text: string;
  /** True: the template's own words, tokenized with special tokens on. False: what a user wrote, tokenized with them off. */
  trusted: boolean;
}

/**
 * The contents of one chat, each replaced by markers for the template and found again in its output.
 *
 * A content is cut into pieces around the strings that the template looks for; each piece becomes a marker of
 * private-use characters, and between markers stand those strings and the white space that a template may trim:
 * `"  <think>a</think>\nb "` goes in as `"  ①<think>②</think>\n③ "`. Nothing else that a user wrote goes in, so
 * markers cannot be forged, and need not be secret.
 */
export class MarkedContents {
  readonly #literals: RegExp | null;
  readonly #pieces: Piece[] = [];

  /** `literals` matches what stays visible, as `probedLiterals` tells; null: nothing does. */
  constructor(literals: RegExp | null) {
    this.#literals = literals;
  }

  /** What the template sees in place of `content`. A blank one is passed as it is: templates ask whether it is empty. */
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

  /** The template's output as segments, or null where it tore a marker. Contents it dropped or doubled stay so. */
  split(output: string): TemplateSegment[] | null {
    const segments = new SegmentList();
    let at = 0;
    for (let open = output.indexOf(OPEN); open !== -1; open = output.indexOf(OPEN, at)) {
      const close = output.indexOf(CLOSE, open);
      const piece = this.#pieces[Number.parseInt(output.slice(open + 1, close), 10)];
      const between = output.slice(at, open);
      if (close === -1 || piece === undefined || between.includes(CLOSE)) return null;
      // White space goes with the content it precedes, as the two make tokens together.
      const words = between.trimEnd();
      segments.add(words, true);
      segments.add(between.slice(words.length), false);
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

  /** Cuts `content` from `start` to `end` at the literals; white space around a literal stays visible with it. */
  #cut(content: string, start: number, end: number): Piece[] {
    const pieces: Piece[] = [];
    let from = start;
    for (const { 0: literal, index } of this.#literals === null ? [] : content.matchAll(this.#literals)) {
      const text = content.slice(from, index).trimEnd();
      const resume = Math.min(end, endOfSpace(content, index + literal.length));
      pieces.push({ text, after: content.slice(from + text.length, resume) });
      from = resume;
      if (pieces.length === MOST_LITERALS) break;
    }
    pieces.push({ text: content.slice(from, end), after: content.slice(end) });
    return pieces;
  }
}

/** Strings of the template that stay visible in one content. With more it is noise, made to cost time; they are hidden. */
const MOST_LITERALS = 1000;

/** Part of a content. */
interface Piece {
  /** What the marker stands for; may be empty. */
  text: string;
  /** What followed it in the content, up to the next marker or the end: visible to the template. */
  after: string;
}

/** Two characters that have no meaning anywhere; a template would have to print them itself to be misread. */
const OPEN = '\uE0F0';
const CLOSE = '\uE0F1';

function endOfSpace(text: string, from: number): number {
  const space = /\s*/y;
  space.lastIndex = from;
  return from + (space.exec(text)?.[0].length ?? 0);
}

/** Segments, with neighbours of the same kind joined. */
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
 * The strings that a template looks for in other strings: the left side of `in`, and what it passes to `split`,
 * `startswith` and the like; as one expression, the longest first, or null for none. White space alone is not
 * among them: it is visible anyway.
 */
export function probedLiterals(program: object): RegExp | null {
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

const PROBING_METHODS = new Set([
  'split',
  'rsplit',
  'startswith',
  'endswith',
  'replace',
  'partition',
  'find',
]);

/** A node of the parsed template, of which only these fields matter here. */
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
  if (typeof method === 'string' && PROBING_METHODS.has(method)) operands.push(...(node.args ?? []));
  return operands.flatMap(({ type, value }) =>
    type === 'StringLiteral' && typeof value === 'string' ? [value] : [],
  );
}
