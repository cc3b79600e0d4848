import { inspect } from 'node:util';

/**
 * A value that must never be printed. It becomes `[secret]` in templates, JSON and `console.log`, and the log does
 * not accept its type. `reveal()` is the only way to read it, so searching for `reveal` finds every use.
 */
export class Secret {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** Returns the text, to compare or hash it, to send it to a server, or to show a new key once. */
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
