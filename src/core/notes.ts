import { ServiceError } from './errors.ts';

/** Maximum number of notes that a request keeps. Further ones are only counted. */
const MAX_NOTES = 64;

/** Maximum length of the notes in a header, in characters. */
const MAX_HEADER = 1024;

/** Something in a request that had no effect, or that was changed. */
export interface Note {
  /** Path of the field or item, such as `tools[8]`. */
  readonly path: string;
  /** What happened, as a participle, such as `ignored (web_search)`. */
  readonly what: string;
}

/**
 * The notes of one request: callers are told what was ignored, in a header, the log and the receipt. If `strict`, the
 * first note is an error instead.
 */
export class Notes {
  /** Whether the first note is an error. */
  readonly strict: boolean;
  readonly #list: Note[] = [];
  #more = 0;

  constructor(strict = false) {
    this.strict = strict;
  }

  /** Adds a note. Throws `unsupported_parameter` if the notes are strict. */
  add(path: string, what: string): void {
    if (this.strict) {
      const message = `\`${path}\` would be ${what}, and the request is strict.`;
      throw new ServiceError('unsupported_parameter', message, { param: path });
    }
    if (this.isFull) this.addUnnamed();
    else this.#list.push({ path, what });
  }

  /** Counts a note that is not kept, because `isFull`. */
  addUnnamed(): void {
    this.#more++;
  }

  /** Whether further notes are only counted. */
  get isFull(): boolean {
    return this.#list.length === MAX_NOTES;
  }

  get list(): readonly Note[] {
    return this.#list;
  }

  /** Number of notes, also of those that are not kept. */
  get count(): number {
    return this.#list.length + this.#more;
  }

  /** Returns as many notes as have `maxCharacters` of text, and the number of the others. */
  within(maxCharacters: number): { list: readonly Note[]; more: number } {
    let left = maxCharacters;
    const cut = this.#list.findIndex(({ path, what }) => (left -= path.length + what.length) < 0);
    const list = cut === -1 ? this.#list : this.#list.slice(0, cut);
    return { list, more: this.count - list.length };
  }

  /** Returns the notes as the value of a header, in printable ASCII: as many as fit, then the number of the others. */
  header(): string {
    let text = '';
    for (const [index, { path, what }] of this.#list.entries()) {
      const next = `${text}${text === '' ? '' : ', '}${`${path} ${what}`.replaceAll(/[^\x20-\x7e]/gu, '?')}`;
      const left = this.count - index;
      if (next.length > MAX_HEADER - 20) return `${text}${text === '' ? '' : ', '}and ${left} more`;
      text = next;
    }
    return this.#more === 0 ? text : `${text}, and ${this.#more} more`;
  }
}
