import { JSON_TYPES } from '../../../openai/json-schema.ts';
import type { ValueTypes } from './argument-types.ts';
import type { CallWriter } from './call-writer.ts';
import { parseJson } from './json-text.ts';
import { MalformedCall, type Parsing, type PieceReader } from './piece-reader.ts';

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
  const mayBeString = types.has('string');
  let undecided = mayBeString && types.size === 1 ? null : '';
  if (undecided === null) writer.json('"');
  const sink = (text: string): void => {
    if (undecided === null) return writer.json(escaped(text));
    undecided += text;
  };
  try {
    for (;;) {
      const end = yield* reader.until(ends, sink);
      // A string inside of JSON can contain one of `ends`.
      if (mayBeString || !endsInString(undecided ?? '')) break;
      sink(end);
    }
  } catch (error) {
    // The output ended inside the value, so write the part that has arrived.
    if (error instanceof MalformedCall && undecided !== null) writer.json(undecidedJson(undecided, types));
    throw error;
  }
  writer.json(undecided === null ? '"' : undecidedJson(undecided, types));
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

function endsInString(json: string): boolean {
  return json.replaceAll(/"(?:[^"\\]|\\.)*"/gs, '').includes('"');
}

/** Returns the JSON of a value. Text that is not JSON of one of the types becomes a string if the types include it. */
function undecidedJson(text: string, types: ValueTypes): string {
  const mayBeString = types.has('string');
  const json = mayBeString ? text.trim() : (PYTHON_CONSTANTS[text.trim()] ?? text.trim());
  const value = parseJson(json);
  // If the schema allows strings, the quotes of a quoted text are part of the string.
  const isJson =
    value !== undefined &&
    (!mayBeString || [...types].some((type) => type !== 'string' && JSON_TYPES[type](value)));
  return isJson ? json : JSON.stringify(text);
}
