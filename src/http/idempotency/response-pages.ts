/** Size of the first page of a response, in bytes. Each further page is twice as large as the one before it. */
const FIRST_PAGE_BYTES = 4096;
const MAX_PAGE_BYTES = 65_536;

const EMPTY = Buffer.alloc(0);

interface Page {
  bytes: Buffer;
  used: number;
}

/** Position of a reader in a response. */
export interface Position {
  /** Counted from the start of the response, including dropped pages. */
  page: number;
  offset: number;
}

/**
 * The bytes of a response, in pages outside of the JavaScript heap, so that their size is known exactly. Each text that
 * is appended is in one page, so that readers never get part of a character.
 */
export class ResponsePages {
  readonly #onAllocate: (bytes: number) => void;
  readonly #pages: Page[] = [];
  #dropped = 0;

  /** Calls `onAllocate` before each new page. */
  constructor(onAllocate: (bytes: number) => void) {
    this.#onAllocate = onAllocate;
  }

  /** Number of pages in memory. */
  get count(): number {
    return this.#pages.length;
  }

  append(text: string): void {
    const length = Buffer.byteLength(text);
    let page = this.#pages.at(-1);
    if (page === undefined || page.bytes.length - page.used < length) {
      const usual = page === undefined ? FIRST_PAGE_BYTES : Math.min(2 * page.bytes.length, MAX_PAGE_BYTES);
      page = this.#allocate(Math.max(usual, length));
    }
    page.used += page.bytes.write(text, page.used);
  }

  /** Whether the page of this position has been dropped. */
  isDropped(position: Position): boolean {
    return position.page < this.#dropped;
  }

  /**
   * Returns the bytes from this position to the end of their page, and advances the position. Empty at the end. The bytes
   * are part of the page, so that any number of readers share its memory.
   */
  read(position: Position): Buffer {
    let page = this.#pages[position.page - this.#dropped];
    if (page?.used === position.offset && position.page - this.#dropped < this.#pages.length - 1) {
      position.page++;
      position.offset = 0;
      page = this.#pages[position.page - this.#dropped];
    }
    if (page === undefined) return EMPTY;
    const bytes = page.bytes.subarray(position.offset, page.used);
    position.offset = page.used;
    return bytes;
  }

  /** Drops the pages before this one. Returns their size in bytes. */
  dropBefore(page: number): number {
    const dropped = this.#pages.splice(0, page - this.#dropped);
    this.#dropped += dropped.length;
    return dropped.reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  /** Releases the unused end of the last page. Returns its size in bytes. */
  trim(): number {
    const last = this.#pages.at(-1);
    if (last === undefined) return 0;
    const unused = last.bytes.length - last.used;
    if (unused === 0) return 0;
    const exact = Buffer.allocUnsafeSlow(last.used);
    last.bytes.copy(exact, 0, 0, last.used);
    last.bytes = exact;
    return unused;
  }

  #allocate(bytes: number): Page {
    this.#onAllocate(bytes);
    // Smaller buffers from Node's pool would keep the pool's memory.
    const page = { bytes: Buffer.allocUnsafeSlow(bytes), used: 0 };
    this.#pages.push(page);
    return page;
  }
}
