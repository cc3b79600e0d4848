/**
 * Parses server-sent events from text in arbitrary pieces and returns their data. Lines end in LF, CR LF or CR.
 * Ignores comments, fields other than `data`, and an incomplete last event. See
 * https://html.spec.whatwg.org/multipage/server-sent-events.html.
 */
export class EventReader {
  /** The incomplete last line. */
  #line = '';
  #data: string[] = [];
  /** The last piece ended in CR: an LF at the start of the next one is part of the same line ending. */
  #afterCr = false;

  /** Returns the data of the events that this piece completes, in order. */
  push(piece: string): string[] {
    const events: string[] = [];
    let start = this.#afterCr && piece.startsWith('\n') ? 1 : 0;
    if (piece !== '') this.#afterCr = piece.endsWith('\r');
    for (const { 0: ending, index } of piece.matchAll(/\r\n|\n|\r/g)) {
      if (index < start) continue;
      this.#end(this.#line + piece.slice(start, index), events);
      this.#line = '';
      start = index + ending.length;
    }
    this.#line += piece.slice(start);
    return events;
  }

  #end(line: string, events: string[]): void {
    if (line === '') {
      if (this.#data.length > 0) events.push(this.#data.join('\n'));
      this.#data = [];
    } else if (line === 'data') this.#data.push('');
    else if (line.startsWith('data:')) this.#data.push(line.slice(line[5] === ' ' ? 6 : 5));
  }
}
