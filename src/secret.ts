import { inspect } from 'node:util';

/**
 * A value that must never be printed. It turns into `[secret]` in templates, JSON and `console.log`, and the
 * log does not accept its type; `reveal()` is the one way to the text, so a search for it finds every use.
 */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** The text itself: for comparing, hashing, an `Authorization` header, or the one time that a key is shown. */
  reveal(): string {
    return this.#text;
  }

  toString(): string {
    return '[secret]';
  }

  toJSON(): string {
    return '[secret]';
  }

  [inspect.custom](): string {
    return '[secret]';
  }
}
