import type { CallKeys } from './call-grammar.ts';
import { callMembers, callObject } from './json-call.ts';
import { jsonNameAfterQuote } from './json-text.ts';
import type { ToolFormat } from './tool-format.ts';

const KEYS: CallKeys = { name: 'name', arguments: 'parameters' };

const PYTHON_TAG = '<|python_tag|>';
const TYPE = String.raw`("\"type\": \"function\", " | "\"type\":\"function\",")?`;

/**
 * Llama 3.1 to 3.3: the answer is `{"name": "f", "parameters": {}}`, sometimes after `<|python_tag|>` and with
 * `"type": "function"` first.
 */
export const LLAMA3: ToolFormat = {
  name: 'llama3',
  openings: [PYTHON_TAG],
  leadingOpenings: () => LEADING,
  repeats: false,
  separator: '""',
  *parse(call) {
    const { reader, opening } = call;
    if (opening === PYTHON_TAG) return yield* callObject(call, KEYS);
    const name = yield* jsonNameAfterQuote(reader);
    yield* callMembers(call, KEYS, name);
  },
  grammar: (grammar) => `"${PYTHON_TAG}"? ${grammar.jsonCall(KEYS, { before: TYPE })}`,
};

/** Each opening ends with the quote before the function's name. */
const LEADING: readonly string[] = ['{', '{ '].flatMap((brace) =>
  ['', '"type": "function", ', '"type":"function",'].flatMap((type) =>
    ['"name": "', '"name":"'].map((name) => brace + type + name),
  ),
);
