import { literal } from '../grammar-rules.ts';
import { CALL_KEYS, callMembers, callObject } from './json-call.ts';
import { isSpace } from './piece-reader.ts';
import type { ToolFormat } from './tool-format.ts';

/**
 * Qwen 2.5, Qwen 3, Hermes, Granite 4: `<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>`. Small models, such as
 * Qwen 2.5 Coder 1.5B, write the first call in a code block instead.
 */
export const HERMES: ToolFormat = {
  name: 'hermes',
  openings: ['<tool_call>'],
  leadingOpenings: (tools) =>
    tools.flatMap(({ name }) => BLOCKS.map((block) => block + JSON.stringify(name))),
  repeats: true,
  separator: 'ws',
  *parse(call) {
    const { opening, reader } = call;
    if (opening !== '<tool_call>') {
      const block = BLOCKS.find((start) => opening.startsWith(start)) ?? '';
      const name = JSON.parse(opening.slice(block.length)) as string; // See `leadingOpenings`.
      yield* callMembers(call, CALL_KEYS, name);
      while ((yield* reader.more()) && isSpace(reader.rest.charAt(0))) reader.skip(1);
      yield* reader.optional('```');
      return;
    }
    yield* callObject(call);
    yield* reader.space();
    yield* reader.literal('</tool_call>');
  },
  grammar: (grammar) => `"<tool_call>" ws ${grammar.jsonCall(CALL_KEYS)} ws "</tool_call>"`,
  leadingGrammar: (grammar) => {
    const blocks = BLOCKS.map(literal).join(' | ');
    const call = grammar.anyTool(
      (tool) =>
        String.raw`${literal(JSON.stringify(tool.name))} "," ws "\"arguments\":" sp ${grammar.object(tool)}`,
    );
    return `(${blocks}) ${call} ws "}" ws ${literal(FENCE)}`;
  },
};

const FENCE = '```';
/** The start of a code block with a call, up to the name. */
const BLOCKS = ['{\n  "name": ', '{"name": '].map((object) => `${FENCE}json\n${object}`);
