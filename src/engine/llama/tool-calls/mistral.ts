import { literal } from '../grammar-rules.ts';
import { CALL_KEYS, callList, callObject } from './json-call.ts';
import { jsonObject } from './json-text.ts';
import type { ToolFormat } from './tool-format.ts';

/** Mistral Small 3.2, Devstral, Ministral 3: `[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{}`. The ID is optional. */
export const MISTRAL: ToolFormat = {
  name: 'mistral',
  openings: ['[TOOL_CALLS]'],
  repeats: true,
  separator: '""',
  *parse({ reader, writer }) {
    yield* reader.space();
    const name = yield* reader.name('[{<');
    if ((yield* reader.oneOf(['[CALL_ID]', '[ARGS]'])) === '[CALL_ID]') {
      yield* reader.name('[');
      yield* reader.literal('[ARGS]');
    }
    yield* reader.space();
    yield* reader.expect('{');
    writer.begin(name);
    yield* jsonObject(reader, (text) => writer.json(text));
  },
  grammar: (grammar) => {
    const call = grammar.anyTool(
      (tool) => `${literal(tool.name)} ("[CALL_ID]" [a-zA-Z0-9]{9})? "[ARGS]" ${grammar.object(tool)}`,
    );
    return `"[TOOL_CALLS]" ${call}`;
  },
};

/** Mistral Nemo: `[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "123456789"}]`. */
export const MISTRAL_NEMO: ToolFormat = {
  name: 'mistral-nemo',
  openings: ['[TOOL_CALLS]'],
  repeats: false,
  separator: '""',
  *parse(call) {
    yield* call.reader.space();
    yield* call.reader.literal('[');
    yield* callList(call, callObject);
  },
  grammar: (grammar) => {
    const after = `("," sp "\\"id\\":" sp "\\"" [a-zA-Z0-9]{9} "\\"")?`;
    return `"[TOOL_CALLS]" sp "[" ${grammar.list(grammar.jsonCall(CALL_KEYS, { after }), '"," sp')} "]"`;
  },
};
