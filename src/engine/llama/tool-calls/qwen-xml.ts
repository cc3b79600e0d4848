import { literal } from '../grammar-rules.ts';
import { rawValue } from './raw-value.ts';
import type { ToolFormat } from './tool-format.ts';

/**
 * Qwen 3 Coder, Qwen 3.5, Nemotron 3: `<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>`.
 * Values are raw text. The models sometimes omit `<tool_call>`.
 */
export const QWEN_XML: ToolFormat = {
  name: 'qwen-xml',
  openings: ['<tool_call>', '<function='],
  repeats: true,
  separator: 'ws',
  *parse(call) {
    const { reader, writer, opening } = call;
    if (opening === '<tool_call>') {
      yield* reader.space();
      yield* reader.literal('<function=');
    }
    const name = yield* reader.name('>\n<');
    yield* reader.literal('>');
    writer.begin(name);
    yield* reader.space();
    while ((yield* reader.oneOf(['<parameter=', '</function>'])) === '<parameter=') {
      const argument = yield* reader.name('>\n<');
      yield* reader.literal('>');
      yield* reader.optional('\n');
      writer.key(argument);
      yield* rawValue(call, argument, ['\n</parameter>', '</parameter>']);
      yield* reader.space();
    }
    writer.closeArguments();
    writer.end();
    yield* reader.space();
    yield* reader.literal('</tool_call>');
  },
  grammar: (grammar) => {
    const call = grammar.anyTool((tool) => {
      const member = (argument: string): string =>
        `${literal(`<parameter=${argument}>\n`)} ${grammar.rawValue(tool, argument, '</parameter>', '\n')} "\\n"`;
      return `${literal(`${tool.name}>`)} "\\n" ${grammar.members(tool, member)} "</function>"`;
    });
    return `("<tool_call>" ws)? "<function=" ${call} ws "</tool_call>"`;
  },
};
