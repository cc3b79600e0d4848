import type { Tool } from '../../../generation.ts';
import { literal } from '../grammar-rules.ts';
import type { CallGrammar } from './call-grammar.ts';
import { callList } from './json-call.ts';
import { type LiteralSyntax, members } from './literal-value.ts';
import type { Parsing } from './piece-reader.ts';
import type { CallParsing, ToolFormat } from './tool-format.ts';

const SYNTAX: LiteralSyntax = { quotes: ["'", '"'], rawQuote: null };

/** LFM 2: `<|tool_call_start|>[f(a='x', b=1)]<|tool_call_end|>`. */
export const LFM2: ToolFormat = {
  name: 'lfm2',
  openings: ['<|tool_call_start|>'],
  repeats: false,
  separator: '""',
  *parse(call) {
    yield* call.reader.space();
    yield* call.reader.literal('[');
    yield* callList(call, pythonCall);
    yield* call.reader.space();
    yield* call.reader.literal('<|tool_call_end|>');
  },
  grammar: (grammar) =>
    `"<|tool_call_start|>[" ${grammar.list(pythonCallRule(grammar), '"," sp')} "]<|tool_call_end|>"`,
};

const PYTHON_START = '<|python_start|>';

/** Llama 4: the entire output is `[f(a='x', b=1)]`, sometimes after `<|python_start|>`. */
export const LLAMA4: ToolFormat = {
  name: 'llama4',
  openings: [PYTHON_START],
  leadingOpenings: (tools) => tools.map((tool) => `[${tool.name}(`),
  repeats: false,
  separator: '""',
  *parse(call) {
    const { reader, writer, opening } = call;
    if (opening === PYTHON_START) {
      yield* reader.space();
      yield* reader.literal('[');
      yield* callList(call, pythonCall);
      yield* reader.optional('<|python_end|>');
      return;
    }
    yield* pythonArguments(call, opening.slice(1, -1));
    writer.end();
    yield* reader.space();
    if ((yield* reader.oneOf([',', ']'])) === ',') yield* callList(call, pythonCall);
  },
  grammar: (grammar) => `"${PYTHON_START}"? "[" ${grammar.list(pythonCallRule(grammar), '"," sp')} "]"`,
};

function* pythonCall(call: CallParsing): Parsing<void> {
  const name = yield* call.reader.name('()[]<');
  yield* call.reader.literal('(');
  yield* pythonArguments(call, name);
}

/** Reads arguments after their `(`, up to and including the `)`. */
function* pythonArguments({ reader, writer }: CallParsing, name: string): Parsing<void> {
  writer.begin(name);
  yield* members(reader, SYNTAX, 0, ')', '=', (key) => {
    writer.key(key);
    return (json) => writer.json(json);
  });
  writer.closeArguments();
}

function pythonCallRule(grammar: CallGrammar): string {
  const syntax = {
    any: pythonValue(grammar),
    string: pythonString(grammar),
    rawQuote: null,
  };
  return grammar.anyTool((tool: Tool) => {
    const member = (argument: string): string =>
      `${literal(`${argument}=`)} ${grammar.literalValue(tool, argument, syntax)}`;
    return `${literal(`${tool.name}(`)} ${grammar.members(tool, member, '"," sp')} ")"`;
  });
}

function pythonString({ rules }: CallGrammar): string {
  const escape = String.raw`"\\" [^\x00-\x1F]`;
  return rules.share(String.raw`"'" ([^'\\] | ${escape})* "'" | "\"" ([^"\\] | ${escape})* "\""`);
}

function pythonValue(grammar: CallGrammar): string {
  const { rules } = grammar;
  const value = rules.reserve();
  const text = pythonString(grammar);
  const member = rules.share(`${text} ":" sp ${value}`);
  const object = rules.share(`"{" (${member} ("," sp ${member})*)? "}"`);
  const list = rules.share(`"[" (${value} ("," sp ${value})*)? "]"`);
  const constant = rules.share('boolean | null | "True" | "False" | "None"');
  rules.define(value, `${object} | ${list} | ${text} | number | ${constant}`);
  return value;
}
