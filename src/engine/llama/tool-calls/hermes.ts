import { literal } from '../grammar-rules.ts';
import { CALL_KEYS, callMembers, callObject } from './json-call.ts';
import { isSpace, type Parsing, type PieceReader } from './piece-reader.ts';
import type { ToolFormat } from './tool-format.ts';

/**
 * Qwen 2.5, Qwen 3, Hermes, Granite 4: `<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>`. Small models, such as
 * Qwen 2.5 Coder 1.5B, also write calls without tags, in a code block, or with doubled braces as in their template.
 * Such text is a call only at the start of the answer.
 */
export const HERMES: ToolFormat = {
  name: 'hermes',
  openings: ['<tool_call>'],
  leadingOpenings: (tools) =>
    tools.flatMap(({ name }) => UNTAGGED.map(({ start }) => start + JSON.stringify(name))),
  repeats: true,
  separator: 'ws',
  *parse(call) {
    const { opening, reader, writer } = call;
    if (opening === '<tool_call>') {
      yield* callObject(call);
      yield* reader.space();
      yield* reader.literal('</tool_call>');
      return;
    }
    const { start, end } = UNTAGGED.find((one) => opening.startsWith(one.start)) ?? { start: '', end: '' };
    const name = JSON.parse(opening.slice(start.length)) as string; // See `leadingOpenings`.
    yield* callMembers(call, CALL_KEYS, name);
    writer.end();
    for (yield* optionalSpace(reader); reader.rest.startsWith('{'); yield* optionalSpace(reader)) {
      yield* callObject(call);
      writer.end();
    }
    yield* reader.optional(end);
  },
  grammar: (grammar) => `"<tool_call>" ws ${grammar.jsonCall(CALL_KEYS)} ws "</tool_call>"`,
  leadingGrammar: (grammar) => {
    const call = grammar.anyTool(
      (tool) =>
        String.raw`${literal(JSON.stringify(tool.name))} "," ws "\"arguments\":" sp ${grammar.object(tool)} ws "}"`,
    );
    const calls = grammar.list(call, String.raw`ws "{" ws "\"name\":" sp`);
    const name = grammar.rules.share(calls);
    return UNTAGGED.map(
      ({ start, end }) => `${literal(start)} ${name}${end === '' ? '' : ` (ws ${literal(end)})?`}`,
    ).join(' | ');
  },
};

/** Reads white space. Unlike `PieceReader.space`, the output may end after it. */
function* optionalSpace(reader: PieceReader): Parsing<void> {
  while ((yield* reader.more()) && isSpace(reader.rest.charAt(0))) reader.skip(1);
}

/** Calls without tags: the text up to the name, and the text after the last call. */
const UNTAGGED = [
  { start: '```json\n{\n  "name": ', end: '```' },
  { start: '```json\n{"name": ', end: '```' },
  { start: '{"name": ', end: '' },
  { start: '{{"name": ', end: '}' },
];
