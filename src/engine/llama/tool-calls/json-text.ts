import { MalformedCall, type Parsing, type PieceReader } from './piece-reader.ts';

/** Characters of JSON outside of strings. */
const JSON_CHARACTER = /[[\]{}:,"0-9+\-.eEtrufalsn\s]/;

/**
 * Reads a JSON value and passes its text to `sink` as it arrives. Only finds the end of the value and checks the
 * characters outside of strings, so the value may be invalid JSON.
 */
export function* jsonValue(reader: PieceReader, sink: (text: string) => void): Parsing<void> {
  yield* scan(reader, new JsonScanner(), sink);
}

function* scan(reader: PieceReader, scanner: JsonScanner, sink: (text: string) => void): Parsing<void> {
  while (yield* reader.more()) {
    const { rest } = reader;
    const end = scanner.scan(rest);
    reader.skip(end);
    if (end > 0) sink(rest.slice(0, end));
    if (scanner.ended) return;
    if (end < rest.length) throw new MalformedCall();
  }
  throw new MalformedCall();
}

/** Reads a JSON object and passes its text to `sink` as it arrives. */
export function* jsonObject(reader: PieceReader, sink: (text: string) => void): Parsing<void> {
  yield* reader.expect('{');
  yield* jsonValue(reader, sink);
}

/** Maximum length of a name as a JSON string, in UTF-16 code units. */
const MAX_NAME = 1024;

/** Reads a JSON string and returns its value. Throws `MalformedCall` if it is too long for a name. */
export function* jsonName(reader: PieceReader): Parsing<string> {
  yield* reader.literal('"');
  return yield* jsonNameAfterQuote(reader);
}

/** Reads a JSON string whose first quote was already read. */
export function* jsonNameAfterQuote(reader: PieceReader): Parsing<string> {
  let json = '"';
  const scanner = new JsonScanner();
  scanner.scan('"');
  yield* scan(reader, scanner, (text) => {
    json += text;
    if (json.length > MAX_NAME) throw new MalformedCall();
  });
  const value = parseJson(json);
  if (typeof value !== 'string') throw new MalformedCall();
  return value;
}

/** Parses JSON. Returns undefined if it is invalid. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Finds the end of a JSON value. A scalar other than a string ends before the next `,`, bracket or white space. */
class JsonScanner {
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
