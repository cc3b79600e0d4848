/** Something that holds bytes for its socket. */
interface Writer {
  flush(): void;
}

/**
 * The streams of a server, the service's or an engine's, that have written in this turn of the event loop. They are flushed together when it has
 * read all that came: a token then costs a tenth less than with a write between every two reads, and what a
 * stream wrote in one turn leaves as one chunk.
 */
export class WriteQueue {
  #writers: Writer[] = [];

  /** Has the writer flushed at the end of this turn; once a turn. */
  add(writer: Writer): void {
    if (this.#writers.length === 0) setImmediate(this.#flush);
    this.#writers.push(writer);
  }

  readonly #flush = (): void => {
    const writers = this.#writers;
    this.#writers = [];
    for (const writer of writers) writer.flush();
  };
}
