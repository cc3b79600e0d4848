import { escapeJson, parseJsonObject } from '../../json/values.ts';

/** The beginning of the arguments of a custom tool's function. */
const START = /^\s*\{\s*"input"\s*:\s*"/;

/** Control characters, which JSON text must not have but models write. */
const CONTROL = /\p{Cc}/gu;

/** Longest beginning that is waited for, in characters, so that each part is read once. */
const MAX_START = 100;

/** Reads the input of a custom tool from the arguments of its function, which arrive in parts. */
export class CustomInput {
  /** The arguments before the input is found, then the part of the input that is not decoded. */
  #json = '';
  #state: 'before' | 'input' | 'after' = 'before';
  #text = '';

  /** The input so far. */
  get text(): string {
    return this.#text;
  }

  /** Adds a part of the arguments. Returns the part of the input that it completes. */
  push(part: string): string {
    if (this.#state === 'after') return '';
    const isTooLong = this.#state === 'before' && this.#json.length > MAX_START;
    this.#json += part;
    if (isTooLong) return '';
    if (this.#state === 'before') {
      const start = START.exec(this.#json);
      if (start === null) return '';
      this.#state = 'input';
      this.#json = this.#json.slice(start[0].length);
    }
    const length = this.#completeLength(this.#json);
    const complete = this.#json.slice(0, length);
    this.#json = this.#json.slice(length);
    return this.#add(decode(complete));
  }

  /** Returns the rest of the input after the last part. Arguments without the field are the input as they are. */
  end(): string {
    if (this.#state !== 'before') return '';
    const { input } = parseJsonObject(this.#json);
    return this.#add(typeof input === 'string' ? input : this.#json);
  }

  /** Returns the length of the text before the closing quote and before an incomplete escape. */
  #completeLength(rest: string): number {
    let at = 0;
    while (at < rest.length) {
      const character = rest[at];
      if (character === '"') {
        this.#state = 'after';
        return at;
      }
      const length = character === '\\' ? escapeLength(rest, at) : 1;
      if (at + length > rest.length) return at;
      at += length;
    }
    return at;
  }

  #add(text: string): string {
    this.#text += text;
    return text;
  }
}

/** Returns the length of the escape at `at`; Infinity if it is not complete. A surrogate pair is one escape. */
function escapeLength(text: string, at: number): number {
  if (at + 1 >= text.length) return Infinity;
  if (text[at + 1] !== 'u') return 2;
  if (!HIGH_SURROGATE.test(text.slice(at, at + 6))) return 6;
  const next = text.slice(at + 6, at + 8);
  return next === '' || next === '\\' || next === '\\u' ? 12 : 6;
}

const HIGH_SURROGATE = /^\\ud[89ab]/i;

/** Decodes the inside of a JSON string. Returns text with invalid escapes unchanged. */
function decode(inside: string): string {
  const escaped = inside.replaceAll(CONTROL, (character) => escapeJson(character));
  try {
    const text: unknown = JSON.parse(`"${escaped}"`);
    return typeof text === 'string' ? text.toWellFormed() : inside;
  } catch {
    return inside;
  }
}
