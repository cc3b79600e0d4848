import { literal } from '../grammar-rules.ts';
import type { CallGrammar } from './call-grammar.ts';
import { rawValue } from './raw-value.ts';
import type { Tool } from '../../../generation.ts';
import type { ToolFormat } from './tool-format.ts';

/**
 * MiniMax M2: `<minimax:tool_call>\n<invoke name="f">\n<parameter name="a">x</parameter>\n</invoke>\n</minimax:tool_call>`.
 * Values are raw text.
 */
export const MINIMAX = invokeFormat({ name: 'minimax', list: 'minimax:tool_call', prefix: '', typed: false });

/**
 * DeepSeek V3.2: like MiniMax M2, with the prefix `｜DSML｜` in tags, and the attribute `string="true"` or
 * `string="false"`.
 */
export const DEEPSEEK_V32 = invokeFormat({
  name: 'deepseek-v3.2',
  list: '｜DSML｜function_calls',
  prefix: '｜DSML｜',
  typed: true,
});

/** DeepSeek V4: like V3.2, but the tag around the calls has a different name. */
export const DEEPSEEK_V4 = invokeFormat({
  name: 'deepseek-v4',
  list: '｜DSML｜tool_calls',
  prefix: '｜DSML｜',
  typed: true,
});

interface InvokeOptions {
  name: string;
  /** Name of the tag around the calls. */
  list: string;
  /** Text before the names of the other tags. */
  prefix: string;
  /** Whether parameters have the attribute `string`. */
  typed: boolean;
}

function invokeFormat({ name: format, list, prefix, typed }: InvokeOptions): ToolFormat {
  const invoke = `<${prefix}invoke name="`;
  const invokeEnd = `</${prefix}invoke>`;
  const parameter = `<${prefix}parameter name="`;
  const parameterEnd = `</${prefix}parameter>`;

  function member(grammar: CallGrammar, tool: Tool, argument: string): string {
    const start = literal(`${parameter}${argument}"`);
    const value = grammar.rawValue(tool, argument, parameterEnd);
    const attribute = typed ? '" string=\\"" ("true" | "false") "\\""' : '';
    return `${start} ${attribute} ">" ${value} "\\n"`;
  }

  return {
    name: format,
    openings: [`<${list}>`],
    repeats: false,
    separator: '""',
    *parse(call) {
      const { reader, writer } = call;
      yield* reader.space();
      const ends = [invoke, `</${list}>`];
      while ((yield* reader.oneOf(ends)) === invoke) {
        const name = yield* reader.name('"');
        yield* reader.literal('">');
        writer.begin(name);
        yield* reader.space();
        while ((yield* reader.oneOf([parameter, invokeEnd])) === parameter) {
          const argument = yield* reader.name('"');
          yield* reader.until(['>'], () => {});
          writer.key(argument);
          yield* rawValue(call, argument, [parameterEnd]);
          yield* reader.space();
        }
        writer.closeArguments();
        writer.end();
        yield* reader.space();
      }
    },
    grammar: (grammar) => {
      const call = grammar.anyTool((tool) => {
        const members = grammar.members(tool, (argument) => member(grammar, tool, argument));
        return `${literal(`${tool.name}">\n`)} ${members} ${literal(`${invokeEnd}\n`)}`;
      });
      const element = grammar.rules.share(`${literal(invoke)} ${call}`);
      return `${literal(`<${list}>\n`)} ${grammar.list(element, '""')} ${literal(`</${list}>`)}`;
    },
  };
}
