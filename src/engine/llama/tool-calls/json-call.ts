import type { CallKeys } from './call-grammar.ts';
import { jsonName, jsonObject, jsonValue } from './json-text.ts';
import { MalformedCall, type Parsing } from './piece-reader.ts';
import type { CallParsing } from './tool-format.ts';

export const CALL_KEYS: CallKeys = { name: 'name', arguments: 'arguments' };

/** Reads an object such as `{"name": "f", "arguments": {}}`. Members may be in any order; unknown ones are ignored. */
export function* callObject(call: CallParsing, keys: CallKeys = CALL_KEYS): Parsing<void> {
  yield* call.reader.space();
  yield* call.reader.literal('{');
  yield* callMembers(call, keys, null);
}

/**
 * Reads the members of a call up to the `}`. `name` is the name of the function if it was already read, otherwise null.
 */
export function* callMembers(call: CallParsing, keys: CallKeys, name: string | null): Parsing<void> {
  const { reader, writer } = call;
  let earlyArguments = '';
  let isNamed = name !== null;
  let functionName = name ?? '';
  // If the name was already read, a comma precedes the next member.
  let next: string = isNamed ? yield* separator(call) : ',';
  while (next === ',') {
    yield* reader.space();
    const key = yield* jsonName(reader);
    yield* reader.space();
    yield* reader.literal(':');
    yield* reader.space();
    if (key === keys.name && !isNamed) {
      functionName = yield* jsonName(reader);
      isNamed = true;
      if (earlyArguments !== '') {
        writer.begin(functionName);
        writer.json(earlyArguments);
      }
    } else if (key === keys.arguments && isNamed && !writer.isOpen) {
      yield* reader.expect('{');
      writer.begin(functionName);
      yield* jsonObject(reader, (text) => writer.json(text));
    } else if (key === keys.arguments && earlyArguments === '' && !writer.isOpen) {
      yield* jsonObject(reader, (text) => (earlyArguments += text));
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
