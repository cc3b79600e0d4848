import type { CallWriter } from './call-writer.ts';
import { parseJson } from './json-text.ts';
import { MalformedCall, type Parsing, type PieceReader } from './piece-reader.ts';

/**
 * Maximum length of a value whose type is decided at its end, in UTF-16 code units. A longer value is written as a
 * string.
 */
const MAX_UNDECIDED = 65_536;

/**
 * Reads the value of an argument up to one of `ends` and writes it as JSON. A string is written as it arrives. A value
 * that may have another type is written when it is complete, as a string if it is not JSON.
 */
export function* rawValue(
  { reader, writer }: { reader: PieceReader; writer: CallWriter },
  argument: string,
  ends: readonly string[],
): Parsing<void> {
  const types = writer.typesOf(argument);
  let undecided = types.other ? '' : null;
  if (undecided === null) writer.json('"');
  const sink = (text: string): void => {
    if (undecided === null) return writer.json(escaped(text));
    undecided += text;
    if (undecided.length <= MAX_UNDECIDED) return;
    writer.json(`"${escaped(undecided)}`);
    undecided = null;
  };
  try {
    yield* reader.until(ends, sink);
  } catch (error) {
    // The output ended inside the value, so write the part that has arrived.
    if (error instanceof MalformedCall && undecided !== null)
      writer.json(undecidedJson(undecided, types.string));
    throw error;
  }
  writer.json(undecided === null ? '"' : undecidedJson(undecided, types.string));
}

/** Encodes text for a JSON string, without the quotes. */
export function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** Python's names of constants, which some templates render. */
export const PYTHON_CONSTANTS: Readonly<Record<string, string>> = {
  True: 'true',
  False: 'false',
  None: 'null',
};

/** Returns the JSON of a value whose type is not known to be a string. */
function undecidedJson(text: string, mayBeString: boolean): string {
  const json = mayBeString ? text.trim() : (PYTHON_CONSTANTS[text.trim()] ?? text.trim());
  const value = parseJson(json);
  // If the schema allows strings, the quotes of a quoted text are part of the string.
  const isJson = value !== undefined && !(mayBeString && typeof value === 'string');
  return isJson ? json : JSON.stringify(text);
}
