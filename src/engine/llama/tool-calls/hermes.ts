import { CALL_KEYS, callObject } from './json-call.ts';
import type { ToolFormat } from './tool-format.ts';

/** Qwen 2.5, Qwen 3, Hermes, Granite 4: `<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>`. */
export const HERMES: ToolFormat = {
  name: 'hermes',
  openings: ['<tool_call>'],
  repeats: true,
  separator: 'ws',
  *parse(call) {
    yield* callObject(call);
    yield* call.reader.space();
    yield* call.reader.literal('</tool_call>');
  },
  grammar: (grammar) => `"<tool_call>" ws ${grammar.jsonCall(CALL_KEYS)} ws "</tool_call>"`,
};
