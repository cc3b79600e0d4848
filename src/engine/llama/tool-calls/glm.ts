import { literal } from '../grammar-rules.ts';
import { rawValue } from './raw-value.ts';
import type { ToolFormat } from './tool-format.ts';

/** GLM 4.5 to 4.7: `<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>`. Values are raw text. */
export const GLM: ToolFormat = {
  name: 'glm',
  openings: ['<tool_call>'],
  repeats: true,
  separator: 'ws',
  *parse(call) {
    const { reader, writer } = call;
    yield* reader.space();
    const name = yield* reader.name('\n<');
    yield* reader.space();
    const tags = ['<arg_key>', '</tool_call>'] as const;
    let tag = yield* reader.oneOf(tags);
    writer.begin(name);
    while (tag === '<arg_key>') {
      const argument = yield* reader.name('<\n');
      yield* reader.literal('</arg_key>');
      yield* reader.space();
      yield* reader.literal('<arg_value>');
      writer.key(argument);
      yield* rawValue(call, argument, ['</arg_value>']);
      yield* reader.space();
      tag = yield* reader.oneOf(tags);
    }
    writer.closeArguments();
  },
  grammar: (grammar) => {
    const call = grammar.anyTool((tool) => {
      const member = (argument: string): string =>
        `${literal(`<arg_key>${argument}</arg_key>`)} ws "<arg_value>" ${grammar.rawValue(tool, argument, '</arg_value>')} ws`;
      return `${literal(tool.name)} ws ${grammar.members(tool, member)}`;
    });
    return `"<tool_call>" ${call} "</tool_call>"`;
  },
};
