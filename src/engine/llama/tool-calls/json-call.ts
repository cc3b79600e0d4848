import { JsonScanner } from '../../../json/json-scanner.ts';
import { literal } from '../grammar/grammar-rules.ts';
import type { CallKeys } from './call-grammar.ts';
import type { CallParsing, ToolFormat } from './tool-format.ts';
import { MalformedCall, type Parsing, type PieceReader } from './piece-reader.ts';

export const CALL_KEYS: CallKeys = { name: 'name', arguments: 'arguments' };

/** Reads an object such as `{"name": "f", "arguments": {}}`. Members may be in any order; unknown ones are ignored. */
export function* callObject(call: CallParsing, keys: CallKeys = CALL_KEYS): Parsing<void> {
  yield* call.reader.space();
  yield* call.reader.literal('{');
  yield* callMembers(call, keys, null);
}

/**
 * Reads the members of a call up to the `}`. `name` is the name of the function if it was already read, otherwise null.
 * An object without a tag around it can have the name of a tool and other members, so it is a call only with arguments.
 */
export function* callMembers(call: CallParsing, keys: CallKeys, name: string | null): Parsing<void> {
  const { reader, writer } = call;
  if (name !== null) call.check(name);
  let earlyArguments = '';
  let isNamed = name !== null;
  let functionName = name ?? '';
  // If the name was already read, a comma precedes the next member.
  let next: string = isNamed ? yield* separator(call) : ',';
  while (next === ',') {
    yield* reader.space();
    const key = yield* jsonName(reader);
    if (key === keys.arguments && isNamed) call.accept(functionName);
    yield* reader.space();
    yield* reader.literal(':');
    yield* reader.space();
    if (key === keys.name && !isNamed) {
      functionName = yield* jsonName(reader);
      call.accept(functionName);
      isNamed = true;
      if (earlyArguments !== '') {
        writer.begin(functionName);
        writer.json(earlyArguments);
      }
    } else if (key === keys.arguments && isNamed && !writer.isOpen) {
      yield* jsonArguments(call, functionName);
    } else if (key === keys.arguments && earlyArguments === '' && !writer.isOpen) {
      yield* reader.expect('{');
      yield* jsonValue(reader, (text) => (earlyArguments += text));
    } else {
      yield* jsonValue(reader, () => {});
    }
    next = yield* separator(call);
  }
  if (!writer.isOpen) throw new MalformedCall();
}

/** Reads calls separated by commas, and the `]` after them. */
export function* callList(call: CallParsing, element: (call: CallParsing) => Parsing<void>): Parsing<void> {
  const { reader, writer } = call;
  do {
    yield* element(call);
    writer.end();
    yield* reader.space();
  } while ((yield* reader.oneOf([',', ']'])) === ',');
}

function* separator({ reader }: CallParsing): Parsing<',' | '}'> {
  yield* reader.space();
  return yield* reader.oneOf([',', '}']);
}

/** Nemotron Nano 2: `<TOOLCALL>[{"name": "f", "arguments": {}}]</TOOLCALL>`. */
export const NEMOTRON = jsonList({
  name: 'nemotron',
  open: '<TOOLCALL>',
  close: '</TOOLCALL>',
  keys: CALL_KEYS,
});

/** Command R7B and A: `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {}}]<|END_ACTION|>`. */
export const COHERE = jsonList({
  name: 'cohere',
  open: '<|START_ACTION|>',
  close: '<|END_ACTION|>',
  keys: { name: 'tool_name', arguments: 'parameters' },
  before: String.raw`("\"tool_call_id\":" sp "\"" [0-9]{1,3} "\"," sp)?`,
});

interface JsonListOptions {
  name: string;
  open: string;
  close: string;
  keys: CallKeys;
  /** GBNF expression for the members before the name. Default: none. */
  before?: string;
}

/** Returns a format that has a JSON list of calls between two texts. */
function jsonList({ name, open, close, keys, before = '' }: JsonListOptions): ToolFormat {
  return {
    name,
    openings: [open],
    place: 'apart',
    repeats: false,
    separator: '""',
    *parse(call) {
      yield* call.reader.space();
      yield* call.reader.literal('[');
      yield* callList(call, (each) => callObject(each, keys));
      yield* call.reader.space();
      yield* call.reader.literal(close);
    },
    grammar: (grammar) => {
      const list = grammar.list(grammar.jsonCall(keys, { before }), '"," ws');
      return `${literal(open)} "[" ws ${list} ws "]" ${literal(close)}`;
    },
  };
}

/**
 * Reads a JSON value and passes its text to `sink` as it arrives. Only finds the end of the value and checks the
 * characters outside of strings, so the value may be invalid JSON.
 */
function* jsonValue(
  reader: PieceReader,
  sink: (text: string) => void,
  scanner = new JsonScanner(),
): Parsing<void> {
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

/** Begins a call of a function, and reads its arguments, which are a JSON object. */
export function* jsonArguments({ reader, writer }: CallParsing, name: string): Parsing<void> {
  yield* reader.space();
  yield* reader.expect('{');
  writer.begin(name);
  yield* jsonValue(reader, (text) => writer.json(text));
}

/** Maximum length of a name as a JSON string, in UTF-16 code units. */
const MAX_NAME = 1024;

/** Reads a JSON string and returns its value. Throws `MalformedCall` if it is too long for a name. */
function* jsonName(reader: PieceReader): Parsing<string> {
  yield* reader.literal('"');
  return yield* jsonNameAfterQuote(reader);
}

/** Reads a JSON string whose first quote was already read. */
export function* jsonNameAfterQuote(reader: PieceReader): Parsing<string> {
  let json = '"';
  const scanner = new JsonScanner();
  scanner.scan('"');
  const sink = (text: string): void => {
    json += text;
    if (json.length > MAX_NAME) throw new MalformedCall();
  };
  yield* jsonValue(reader, sink, scanner);
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
