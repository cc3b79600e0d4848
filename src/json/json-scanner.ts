/** Finds the end of a JSON value. A scalar other than a string ends before the next `,`, bracket or white space. */
export class JsonScanner {
  ended = false;
  #depth = 0;
  #inString = false;
  #escaped = false;
  #inScalar = false;

  /**
   * Returns the number of code units that belong to the value. If that is less than the length of `text`, the value has
   * ended or is malformed.
   */
  scan(text: string): number {
    for (let at = 0; at < text.length; at += 1) {
      const character = text.charAt(at);
      if (this.#inString) {
        this.#string(character);
      } else {
        if (this.#inScalar && /[,\]}\s]/.test(character)) this.ended = true;
        if (this.ended || !JSON_CHARACTER.test(character)) return at;
        this.#outside(character);
      }
      if (this.ended) return at + 1;
    }
    return text.length;
  }

  #string(character: string): void {
    if (this.#escaped) this.#escaped = false;
    else if (character === '\\') this.#escaped = true;
    else if (character === '"') {
      this.#inString = false;
      this.ended = this.#depth === 0;
    }
  }

  #outside(character: string): void {
    if (character === '"') this.#inString = true;
    else if (character === '{' || character === '[') this.#depth += 1;
    else if (character === '}' || character === ']') {
      this.#depth -= 1;
      this.ended = this.#depth <= 0;
    } else if (this.#depth === 0) this.#inScalar = true;
  }
}

/** Characters of JSON outside of strings. */
const JSON_CHARACTER = /[[\]{}:,"0-9+\-.eEtrufalsn\s]/;
