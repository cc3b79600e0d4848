/** A terminal whose printed lines scroll above one line that is redrawn in place, such as a progress bar. */
export class Terminal {
  readonly #stream: NodeJS.WriteStream;
  #status = '';

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
  }

  /** Prints lines above the status line. */
  print(text: string): void {
    this.#stream.write(this.#status === '' ? `${text}\n` : `${ERASE}${text}\n${this.#status}`);
  }

  /** Replaces the status line, cut to the width of the terminal. The empty string removes it. */
  setStatus(text: string): void {
    const status = text.slice(0, Math.max(0, (this.#stream.columns || 80) - 1));
    if (status === this.#status) return;
    this.#status = status;
    this.#stream.write(`${ERASE}${status}`);
  }
}

/** Returns to the start of the line and erases it. */
const ERASE = '\r\x1b[2K';
