import { literal } from '../grammar-rules.ts';
import { jsonObject } from './json-text.ts';
import type { ToolFormat } from './tool-format.ts';

const BEGIN = '<|tool_calls_section_begin|>';
const CALL = '<|tool_call_begin|>';
const ARGUMENTS = '<|tool_call_argument_begin|>';
const CALL_END = '<|tool_call_end|>';
const END = '<|tool_calls_section_end|>';

/** Kimi K2: the ID `functions.f:0`, between control tokens, contains the name and the index of the call. */
export const KIMI: ToolFormat = {
  name: 'kimi',
  openings: [BEGIN],
  repeats: false,
  separator: '""',
  *parse({ reader, writer }) {
    yield* reader.space();
    while ((yield* reader.oneOf([CALL, END])) === CALL) {
      const id = yield* reader.name('<');
      yield* reader.literal(ARGUMENTS);
      yield* reader.space();
      yield* reader.expect('{');
      writer.begin(id.replace(/^functions\./, '').replace(/:\d+$/, ''));
      yield* jsonObject(reader, (text) => writer.json(text));
      yield* reader.space();
      yield* reader.literal(CALL_END);
      writer.end();
      yield* reader.space();
    }
  },
  grammar: (grammar) => {
    const call = grammar.anyTool(
      (tool) =>
        `${literal(`functions.${tool.name}:`)} [0-9]{1,3} ${literal(ARGUMENTS)} ${grammar.object(tool)}`,
    );
    const element = grammar.rules.share(`${literal(CALL)} ${call} ${literal(CALL_END)}`);
    return `${literal(BEGIN)} ${grammar.list(element, '""')} ${literal(END)}`;
  },
};
