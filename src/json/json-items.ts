import { CHARACTER_BYTES } from './json-heap.ts';

/** Characters that are joined into one part. */
const PART_CHARACTERS = 65_536;

/** The items of a JSON array, written one after another into buffers, which are outside V8's heap. */
export class JsonItems {
  readonly #parts: Buffer[] = [];
  #pending = '';
  #partBytes = 0;

  /** About how much memory the items take. */
  get heldBytes(): number {
    return this.#partBytes + CHARACTER_BYTES * this.#pending.length;
  }

  /** Adds items as an array. */
  push(items: readonly unknown[]): void {
    if (items.length === 0) return;
    const comma = this.#partBytes + this.#pending.length === 0 ? '' : ',';
    this.#pending += comma + JSON.stringify(items).slice(1, -1);
    if (this.#pending.length >= PART_CHARACTERS) this.#flush();
  }

  /** Returns the array in parts. */
  array(): readonly Buffer[] {
    this.#flush();
    return [OPENING, ...this.#parts, CLOSING];
  }

  #flush(): void {
    if (this.#pending === '') return;
    const part = Buffer.from(this.#pending);
    this.#parts.push(part);
    this.#partBytes += part.length;
    this.#pending = '';
  }
}

const OPENING = Buffer.from('[');
const CLOSING = Buffer.from(']');
