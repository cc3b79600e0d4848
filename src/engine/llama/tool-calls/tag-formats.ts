import type { Tool } from '../../../core/generation.ts';
import { JSON_TYPES } from '../../../json/json-schema.ts';
import { literal } from '../grammar/grammar-rules.ts';
import type { ValueTypes } from './argument-types.ts';
import type { CallGrammar } from './call-grammar.ts';
import type { CallWriter } from './call-writer.ts';
import type { Parsing, PieceReader } from './piece-reader.ts';
import type { ToolFormat } from './tool-format.ts';
import { escapeJson } from '../../../json/values.ts';
import { parseJson } from './json-call.ts';

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
    place: 'apart',
    repeats: false,
    separator: '""',
    *parse(call) {
      const { reader, writer, accept } = call;
      yield* reader.space();
      const ends = [invoke, `</${list}>`];
      while ((yield* reader.oneOf(ends)) === invoke) {
        const name = yield* reader.name('"');
        yield* reader.literal('">');
        accept(name);
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
      return `${literal(`<${list}>`)} ws ${grammar.list(element, '""')} ${literal(`</${list}>`)}`;
    },
  };
}

/**
 * Qwen 3 Coder, Qwen 3.5, Nemotron 3: `<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>`.
 * Values are raw text. The models sometimes omit `<tool_call>`.
 */
export const QWEN_XML: ToolFormat = {
  name: 'qwen-xml',
  openings: ['<tool_call>', '<function='],
  place: 'apart',
  repeats: true,
  separator: 'ws',
  *parse(call) {
    const { reader, writer, opening, accept } = call;
    if (opening === '<tool_call>') {
      yield* reader.space();
      yield* reader.literal('<function=');
    }
    const name = yield* reader.name('>\n<');
    yield* reader.literal('>');
    accept(name);
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

/** GLM 4.5 to 4.7: `<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>`. Values are raw text. */
export const GLM: ToolFormat = {
  name: 'glm',
  openings: ['<tool_call>'],
  place: 'apart',
  repeats: true,
  separator: 'ws',
  *parse(call) {
    const { reader, writer, accept } = call;
    yield* reader.space();
    const name = yield* reader.name('\n<');
    accept(name);
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
    return `"<tool_call>" ws ${call} "</tool_call>"`;
  },
};

/**
 * Reads the value of an argument up to one of `ends` and writes it as JSON. A string is written as it arrives. A value
 * that may have another type is written when it is complete, as a string if it is not JSON, and is omitted if it is cut
 * off.
 */
function* rawValue(
  { reader, writer }: { reader: PieceReader; writer: CallWriter },
  argument: string,
  ends: readonly string[],
): Parsing<void> {
  const types = writer.typesOf(argument);
  const mayBeString = types.has('string');
  let undecided = mayBeString && types.size === 1 ? null : '';
  if (undecided === null) writer.json('"');
  const sink = (text: string): void => {
    if (undecided === null) return writer.json(escapeJson(text));
    undecided += text;
  };
  for (;;) {
    const end = yield* reader.until(ends, sink);
    // A string inside of JSON can contain one of `ends`.
    if (mayBeString || !endsInString(undecided ?? '')) break;
    sink(end);
  }
  writer.json(undecided === null ? '"' : undecidedJson(undecided, types));
}

/** Python's names of constants, which some templates render. */
export const PYTHON_CONSTANTS: Readonly<Record<string, string>> = {
  True: 'true',
  False: 'false',
  None: 'null',
};

function endsInString(json: string): boolean {
  // Matches every string, also one without an end, because a failed match would begin again at each quote in it.
  return json.matchAll(/"(?:[^"\\]|\\.)*("?)/gs).some(([, end]) => end === '');
}

/** Returns the JSON of a value. Text that is not JSON of one of the types becomes a string if the types include it. */
function undecidedJson(text: string, types: ValueTypes): string {
  const mayBeString = types.has('string');
  const json = mayBeString ? text.trim() : (PYTHON_CONSTANTS[text.trim()] ?? text.trim());
  const value = parseJson(json);
  // If the schema allows strings, the quotes of a quoted text are part of the string.
  const isJson =
    value !== undefined &&
    (!mayBeString || [...types].some((type) => type !== 'string' && JSON_TYPES[type](value)));
  return isJson ? json : JSON.stringify(text);
}
