/**
 * Makes text in several parts well-formed. Some servers escape characters outside the BMP as two surrogates in JSON, and
 * may send them in two parts; one alone is not text, and would be refused when the client sends it back.
 */
export class WellFormedText {
  /** A high surrogate that waits for its low one; otherwise empty. */
  #high = '';

  /** Returns the text up to the end of this part, without a character that the next part may complete. */
  add(part: string, isLast: boolean): string {
    const text = this.#high + part;
    this.#high = isLast ? '' : (/[\ud800-\udbff]$/.exec(text)?.[0] ?? '');
    return (this.#high === '' ? text : text.slice(0, -1)).toWellFormed();
  }
}
