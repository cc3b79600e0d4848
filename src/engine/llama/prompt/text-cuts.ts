import { decodeByteLevel } from './byte-level.ts';

/** A place where a text can be cut, and the tokens that would span it. */
interface CutKind {
  /** Matches the empty string at the place. */
  place: string;
  /** Matches the stored texts of the tokens that span the place, and of a few others. */
  spanning: RegExp;
}

/** Bytes above 127 in the notation of byte-level tokens. */
const HIGH = '\\u00a1-\\u00ff\\u0122-\\u0143';
/** White space in the notations of byte-level tokens and SentencePiece. */
const WHITE = 'ĠĊčĉ▁\\s';
/** A character that is not white space in any version of Unicode. */
const VISIBLE = '[\\p{L}\\p{N}\\p{P}\\p{S}]';

/** Before a single space. */
const BEFORE_SPACE: CutKind = {
  place: `(?<=${VISIBLE})(?= ${VISIBLE})`,
  spanning: new RegExp(`[^${WHITE}][Ġ▁ ][^${WHITE}]`),
};

/**
 * The places that every pre-tokenizer of llama.cpp puts between two words, unless its vocabulary has tokens that span
 * them. What is before such a place does not change the tokens after it, and vice versa.
 */
const KINDS: readonly CutKind[] = [
  BEFORE_SPACE,
  // After a line.
  {
    place: `(?<=${VISIBLE}\\n)(?=[\\p{L}\\p{N}])`,
    spanning: new RegExp(`Ċ[0-9A-Za-z${HIGH}]|\\n[^${WHITE}]`),
  },
  // Between letters and digits, as in Base64.
  { place: '(?<=[A-Za-z])(?=[0-9])', spanning: /[A-Za-z][0-9]/ },
  { place: '(?<=[0-9])(?=[A-Za-z])', spanning: /[0-9][A-Za-z]/ },
  // After a word, as in JSON without white space.
  ...Array.from('",:;(){}[]<>=', (sign) => RegExp.escape(sign)).map((sign) => ({
    place: `(?<=[A-Za-z])(?=${sign})`,
    spanning: new RegExp(`[A-Za-z]${sign}`),
  })),
  // After a Chinese clause.
  { place: '(?<=[\\u4e00-\\u9fff])(?=[。，])', spanning: /[ä-é]..(?:ãĢĤ|ï¼Į)|[\u4e00-\u9fff][。，]/ },
];

/** llama.cpp's tokenizer types whose tokens depend only on near text. With the others, they can depend on distant text. */
const SENTENCE_PIECE = 1;
export const BYTE_PAIR = 2;
const WORD_PIECE = 3;

/** A BERT tokenizer finds words first: they end at white space, and each Chinese character is one. */
const WORDS = /(?<=[ \n])(?=[^ \n])|(?<=[\u4e00-\u9fff])/gu;

export interface CutVocabulary {
  /** The tokenizer type, as llama.cpp numbers it. */
  type: number;
  /** The stored texts of the tokens that are not special. */
  tokens: readonly string[];
  /** Matches the texts of the special tokens, longest first, with the flag `g`. Null if there are none. */
  specials: RegExp | null;
  /** Length of the longest special token, in UTF-16 code units. */
  longestSpecial: number;
  /** The special tokens that remove the white space after them. */
  stripping: ReadonlySet<string>;
  /** Whether llama.cpp adds a space before every text. */
  addsSpace: boolean;
}

/** Cuts texts into pieces whose tokens, joined, are the tokens of the whole text. */
export class TextCuts {
  readonly #vocabulary: CutVocabulary;
  /** Matches the empty string at the places where a text can be cut. Null if there are none. */
  readonly #places: RegExp | null;

  constructor(vocabulary: CutVocabulary) {
    this.#vocabulary = vocabulary;
    this.#places = placesOf(vocabulary);
  }

  /** Whether there are places where texts can be cut. */
  get available(): boolean {
    return this.#places !== null;
  }

  /**
   * Yields the pieces of a text, in order. A piece is longer than twice `length` only if the text cannot be cut in
   * between. Lengths are in UTF-16 code units.
   */
  *pieces(text: string, length: number): Generator<string> {
    for (let from = 0; from < text.length;) {
      const to = text.length - from > length ? this.#end(text, from, length) : text.length;
      // llama.cpp adds the space again.
      const addsSpace = from > 0 && this.#vocabulary.addsSpace && text[from] === ' ';
      yield text.slice(addsSpace ? from + 1 : from, to);
      from = to;
    }
  }

  #end(text: string, from: number, length: number): number {
    const next = this.#next(text, from + length);
    if (next - from <= 2 * length) return next;
    // The part that cannot be cut may start later.
    let last = from;
    for (let at = this.#next(text, from + 1); at < from + length; at = this.#next(text, at + 1)) last = at;
    return last > from ? last : next;
  }

  /** Returns the first place at or after `start`, or the end of the text. */
  #next(text: string, start: number): number {
    const places = this.#places;
    if (places === null) return text.length;
    places.lastIndex = start;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const match = places.exec(text);
      if (match === null) break;
      if (!this.#touchesSpecial(text, match.index)) return match.index;
      places.lastIndex = match.index + 1;
    }
    return text.length;
  }

  /** Whether a special token spans a place, or removes the white space at it. */
  #touchesSpecial(text: string, place: number): boolean {
    const { specials, longestSpecial, stripping } = this.#vocabulary;
    if (specials === null) return false;
    const from = Math.max(0, place - longestSpecial);
    const near = text.slice(from, place + longestSpecial);
    specials.lastIndex = 0;
    for (let match = specials.exec(near); match !== null; match = specials.exec(near)) {
      const start = from + match.index;
      const end = start + match[0].length;
      if (start >= place) return false;
      if (end > place || (end === place && stripping.has(match[0]))) return true;
      specials.lastIndex = match.index + 1;
    }
    return false;
  }
}

/** Maximum places in or at special tokens that are skipped in a row, because each takes a microsecond. */
const MAX_TRIES = 1000;

function placesOf({ type, tokens, addsSpace }: CutVocabulary): RegExp | null {
  if (type === WORD_PIECE) return new RegExp(WORDS);
  if (type !== SENTENCE_PIECE && type !== BYTE_PAIR) return null;
  // A space that llama.cpp adds to a piece must replace one of the text.
  const possible = addsSpace ? [BEFORE_SPACE] : KINDS;
  const any = new RegExp(possible.map(({ spanning }) => spanning.source).join('|'));
  const few = tokens.filter((token) => any.test(token)).map(readings);
  const kinds = possible.filter(
    ({ place }) => !few.some((texts) => texts.some((text) => spans(text, place))),
  );
  return kinds.length === 0 ? null : new RegExp(kinds.map(({ place }) => place).join('|'), 'gu');
}

/** Returns the texts that a token has in the notations of SentencePiece and of byte-level tokens. */
function readings(token: string): string[] {
  return [token.replaceAll('▁', ' '), Buffer.from(decodeByteLevel(token)).toString()];
}

/** Whether a token with this text covers both sides of such a place, between any letters. */
function spans(text: string, place: string): boolean {
  const matches = `a${text}a`.matchAll(new RegExp(place, 'gu'));
  return matches.some(({ index }) => index > 1 && index <= text.length);
}
