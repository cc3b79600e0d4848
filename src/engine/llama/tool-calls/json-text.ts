import { JsonScanner } from '../../../openai/json-scanner.ts';
import { MalformedCall, type Parsing, type PieceReader } from './piece-reader.ts';

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
