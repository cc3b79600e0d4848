import { Hooks, Lexer, Tokenizer, type Token, type Tokens } from 'marked';

/** A part of a paragraph, a heading or a cell. */
export type Inline =
  | { kind: 'text'; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'strong' | 'emphasis' | 'strike'; children: readonly Inline[] }
  | { kind: 'link'; href: string; children: readonly Inline[] }
  | { kind: 'break' };

/** A block of a text. `raw` is its source. */
export type Block = { raw: string } & (
  | { kind: 'paragraph'; children: readonly Inline[] }
  | { kind: 'heading'; depth: number; children: readonly Inline[] }
  /** `language` as named by the fence; empty: none. */
  | { kind: 'code'; language: string; text: string }
  /** A formula in TeX, with its delimiters. */
  | { kind: 'math'; text: string }
  | { kind: 'quote'; blocks: readonly Block[] }
  /** `start` is the number of the first item; null: bullets. */
  | { kind: 'list'; start: number | null; items: readonly Item[] }
  | { kind: 'table'; align: readonly Align[]; header: readonly Cell[]; rows: readonly (readonly Cell[])[] }
  | { kind: 'rule' }
);

export interface Item {
  /** Of a task; null: no task. */
  checked: boolean | null;
  blocks: readonly Block[];
}

type Align = 'left' | 'center' | 'right' | null;
type Cell = readonly Inline[];

/** Quotes, lists, emphasis and links that are nested deeper are plain text. */
const MAX_DEPTH = 16;
/** Longer paragraphs are plain text, because the time for their emphasis and links can grow with the square of the length. */
const MAX_INLINE = 8000;
/** Longer quotes contain plain text, for the same reason: lists in quotes are read again for each line after them. */
const MAX_QUOTE = 10_000;
/** Longer texts are plain text, in characters. */
const MAX_LENGTH = 500_000;
/** Formulas are at most this long, in characters. */
const MAX_FORMULA = 4000;

/**
 * Reads the Markdown of a text that grows. When text is appended, only the last two blocks, and those before them up to an
 * empty line, are read again; the others are the same objects as before. HTML is text, and only `http`, `https` and `mailto` addresses are links.
 */
export class MarkdownReader {
  #text = '';
  /** Blocks that can no longer change, and the length of their source. */
  #settled: Block[] = [];
  #settledLength = 0;
  #blocks: readonly Block[] = [];

  read(text: string): readonly Block[] {
    if (text === this.#text) return this.#blocks;
    // A carriage return at the end may be half of a line break.
    const source = text.replaceAll(/\r\n?/g, '\n');
    if (!source.startsWith(this.#text)) {
      this.#settled = [];
      this.#settledLength = 0;
    }
    this.#text = source;
    if (source.length > MAX_LENGTH) return (this.#blocks = [plain(source)]);
    const rest = source.slice(this.#settledLength);
    const tokens = lexed(rest);
    // The last line may be incomplete: then it can still become a part of the block before it.
    const last = tokens.findLastIndex(({ type }) => type !== 'space');
    let settled = Math.max(
      0,
      tokens.findLastIndex(({ type }, index) => index < last && type !== 'space'),
    );
    // Without an empty line between them, later text can also merge earlier blocks.
    while (settled > 0 && !/\n[ \t]*\n$/.test(sourceOf(tokens.slice(Math.max(0, settled - 2), settled))))
      settled--;
    const before = tokens.slice(0, settled);
    // Not spread into `push`: there can be more blocks than a call may have arguments.
    this.#settled = this.#settled.concat(blocksOf(before));
    this.#settledLength += sourceOf(before).length;
    this.#blocks = this.#settled.concat(...blocksOf(tokens.slice(settled)));
    return this.#blocks;
  }
}

export function readMarkdown(text: string): readonly Block[] {
  return new MarkdownReader().read(text);
}

/** Level of the first heading of a response. The title of the page has the first level. */
const FIRST_LEVEL = 2;

/**
 * Returns the level of each heading for screen readers, by its block. Models begin at any depth and skip some, but the
 * levels of a page may only grow by one.
 */
export function headingLevels(blocks: readonly Block[]): ReadonlyMap<Block, number> {
  const levels = new Map<Block, number>();
  const open: number[] = [];
  for (const block of blocks) {
    if (block.kind !== 'heading') continue;
    while ((open.at(-1) ?? 0) >= block.depth) open.pop();
    open.push(block.depth);
    levels.set(block, FIRST_LEVEL + open.length - 1);
  }
  return levels;
}

function sourceOf(tokens: readonly Token[]): string {
  return tokens.map(({ raw }) => raw).join('');
}

function plain(text: string): Block {
  return { kind: 'paragraph', raw: text, children: [{ kind: 'text', text }] };
}

function lexed(text: string): readonly Token[] {
  return new BoundedLexer().lex(text);
}

/** Formulas that start at the beginning of a text: `$$…$$`, `\[…\]`, `\(…\)` and `$…$`, as in Pandoc. */
const FORMULA =
  /^(?:\$\$[^$]+\$\$|\\\[[^]*?\\\]|\\\([^]*?\\\)|\$(?![\s$])(?:\\[^\n]|[^\n\\$])*?(?<![\s\\])\$(?!\d))/;
const FORMULAS = new RegExp(FORMULA.source.slice(1), 'g');

function formulaAt(text: string): string | undefined {
  return FORMULA.exec(text.slice(0, MAX_FORMULA))?.[0];
}

/** Hides formulas from the search for the ends of emphasis. */
class FormulaHooks extends Hooks {
  override emStrongMask(text: string): string {
    return text.replaceAll(FORMULAS, (formula) => 'a'.repeat(formula.length));
  }
}

/** A lexer without HTML, with formulas, and with bounds for hostile input. */
class BoundedLexer extends Lexer {
  /** Number of links and emphasized texts around the current text. */
  #depth = 0;

  constructor() {
    super({
      gfm: true,
      breaks: true,
      tokenizer: new BoundedTokenizer(),
      hooks: new FormulaHooks(),
      extensions: {
        renderers: {},
        childTokens: {},
        inline: [
          (text) => {
            if (text[0] !== '$' && text[0] !== '\\') return undefined;
            const formula = formulaAt(text);
            return formula === undefined
              ? undefined
              : { type: 'text', raw: formula, text: formula, escaped: true };
          },
        ],
        startInline: [(text) => text.indexOf('$')],
      },
    });
  }

  override inlineTokens(text: string, tokens: Token[] = []): Token[] {
    if (text.length > MAX_INLINE || this.#depth >= MAX_DEPTH) {
      tokens.push({ type: 'text', raw: text, text, escaped: true });
      return tokens;
    }
    this.#depth++;
    try {
      return super.inlineTokens(text, tokens);
    } finally {
      this.#depth--;
    }
  }
}

class BoundedTokenizer extends Tokenizer {
  /** Number of quotes and lists around the current block. */
  #depth = 0;

  override blockquote(text: string): Tokens.Blockquote | undefined {
    const [raw = ''] = this.rules.block.blockquote.exec(text) ?? [];
    if (raw.length <= MAX_QUOTE) return this.#nested(() => super.blockquote(text));
    return { type: 'blockquote', raw, text: raw, tokens: [{ type: 'text', raw, text: raw }] };
  }

  override list(text: string): Tokens.List | undefined {
    return this.#nested(() => super.list(text));
  }

  /** Formulas that are blocks come before the rules for lists and headings, which their lines may look like. */
  override fences(text: string): Tokens.Code | undefined {
    if (text.startsWith('$$') || text.startsWith('\\[')) {
      const raw = formulaAt(text);
      const isBlock = raw !== undefined && /^[ \t]*(?:\n|$)/.test(text.slice(raw.length, raw.length + 80));
      if (isBlock) return { type: 'code', raw, lang: FORMULA_LANGUAGE, text: raw };
    }
    return super.fences(text);
  }

  override html(): undefined {
    return undefined;
  }

  /** Models write one tilde for "about", and two around deleted text. */
  override del(text: string, masked: string, before?: string): Tokens.Del | undefined {
    return text.startsWith('~~') ? super.del(text, masked, before) : undefined;
  }

  /** Addresses end before the punctuation of Chinese and Japanese, which no space separates from them. */
  override url(text: string): Tokens.Link | undefined {
    const link = super.url(text);
    const end = link?.raw.search(/[\u3000-\u303f\uff00-\uff0f\uff1a-\uff1f]/) ?? -1;
    return end === -1 ? link : super.url(text.slice(0, end));
  }

  /** Texts such as `[INFO]: started` define no link, and would not be shown. */
  override def(text: string): Tokens.Def | undefined {
    const definition = super.def(text);
    return definition && addressOf(definition.href) !== null ? definition : undefined;
  }

  /** Models write `<br>` to break lines in the cells of tables. Other tags are text. */
  override tag(text: string): Tokens.Tag | undefined {
    const raw = /^<br *\/?>/i.exec(text)?.[0];
    return raw === undefined
      ? undefined
      : { type: 'html', raw, text: raw, inLink: false, inRawBlock: false, block: false };
  }

  #nested<Result>(read: () => Result): Result | undefined {
    if (this.#depth >= MAX_DEPTH) return undefined;
    this.#depth++;
    try {
      return read();
    } finally {
      this.#depth--;
    }
  }
}

/** The language of a code token that is a formula. Fences cannot name it. */
const FORMULA_LANGUAGE = ' formula';

function blocksOf(tokens: readonly Token[]): Block[] {
  return tokens.flatMap((token) => blockOf(token) ?? []);
}

function blockOf(token: Token): Block | null {
  const { raw } = token;
  // `Token` includes the tokens of extensions, whose type may be any string, so `switch` does not narrow it.
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'heading': {
      const { depth: level, tokens } = token as Tokens.Heading;
      return { kind: 'heading', raw, depth: level, children: inlinesOf(tokens) };
    }
    case 'code': {
      const { lang = '', text } = token as Tokens.Code;
      if (lang === FORMULA_LANGUAGE) return { kind: 'math', raw, text };
      return { kind: 'code', raw, language: lang.split(/\s/, 1)[0] ?? '', text };
    }
    case 'blockquote':
      return { kind: 'quote', raw, blocks: blocksOf((token as Tokens.Blockquote).tokens) };
    case 'list': {
      const { ordered, start, items } = token as Tokens.List;
      return {
        kind: 'list',
        raw,
        start: ordered && start !== '' ? start : null,
        items: items.map((item) => ({
          checked: item.task ? item.checked === true : null,
          blocks: blocksOf(item.tokens.filter(({ type }) => type !== 'checkbox')),
        })),
      };
    }
    case 'table': {
      const { align, header, rows } = token as Tokens.Table;
      const cells = (row: readonly Tokens.TableCell[]) => row.map(({ tokens }) => inlinesOf(tokens));
      return { kind: 'table', raw, align, header: cells(header), rows: rows.map(cells) };
    }
    case 'hr':
      return { kind: 'rule', raw };
    default: {
      const { tokens, text } = token as Tokens.Text;
      return { kind: 'paragraph', raw, children: tokens ? inlinesOf(tokens) : [{ kind: 'text', text }] };
    }
  }
}

function inlinesOf(tokens: readonly Token[]): Inline[] {
  const parts = tokens.flatMap(inlineOf);
  // Adjacent texts become one, so that a page has few nodes.
  const merged: Inline[] = [];
  for (const part of parts) {
    const last = merged.at(-1);
    if (part.kind === 'text' && last?.kind === 'text') {
      merged[merged.length - 1] = { kind: 'text', text: last.text + part.text };
    } else merged.push(part);
  }
  return merged;
}

function inlineOf(token: Token): Inline[] {
  switch (token.type) {
    case 'strong':
      return [{ kind: 'strong', children: inlinesOf((token as Tokens.Strong).tokens) }];
    case 'em':
      return [{ kind: 'emphasis', children: inlinesOf((token as Tokens.Em).tokens) }];
    case 'del':
      return [{ kind: 'strike', children: inlinesOf((token as Tokens.Del).tokens) }];
    case 'codespan':
      return [{ kind: 'code', text: (token as Tokens.Codespan).text }];
    case 'br':
    case 'html':
      return [{ kind: 'break' }];
    case 'link': {
      const { href, tokens } = token as Tokens.Link;
      const address = addressOf(href);
      return address === null
        ? [{ kind: 'text', text: token.raw }]
        : [{ kind: 'link', href: address, children: inlinesOf(tokens) }];
    }
    case 'image': {
      // Loading an image would tell its host that the response was read.
      const { href, text } = token as Tokens.Image;
      const address = addressOf(href);
      return address === null
        ? [{ kind: 'text', text: token.raw }]
        : [{ kind: 'link', href: address, children: [{ kind: 'text', text: text === '' ? address : text }] }];
    }
    case 'escape':
      return [{ kind: 'text', text: (token as Tokens.Escape).text }];
    default: {
      const { tokens, text, escaped } = token as Tokens.Text;
      if (tokens) return inlinesOf(tokens);
      return [{ kind: 'text', text: escaped ? text : withoutEntities(text) }];
    }
  }
}

/** Returns the address of a link; null: it is not shown as a link. */
function addressOf(href: string): string | null {
  const url = URL.parse(withoutEntities(href));
  return url !== null && ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
}

const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: '\u00a0',
  mdash: '—',
  ndash: '–',
  hellip: '…',
};

/** Replaces the entities of HTML that models write. */
function withoutEntities(text: string): string {
  if (!text.includes('&')) return text;
  return text.replaceAll(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]{2,6}));/gi, (whole, decimal, hex, name) => {
    if (typeof name === 'string') return ENTITIES[name] ?? whole;
    const code = typeof decimal === 'string' ? Number(decimal) : Number.parseInt(String(hex), 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
