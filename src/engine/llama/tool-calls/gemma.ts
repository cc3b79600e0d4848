import { literal } from '../grammar-rules.ts';
import type { CallGrammar } from './call-grammar.ts';
import { type LiteralSyntax, members } from './literal-value.ts';
import type { ToolFormat } from './tool-format.ts';

const OPENING = '<|tool_call>call:';
const QUOTE = '<|"|>';
const END = '<tool_call|>';

const SYNTAX: LiteralSyntax = { quotes: ['"'], rawQuote: QUOTE };

/** Gemma 4: `<|tool_call>call:f{a:<|"|>x<|"|>,b:{c:[1,true]}}<tool_call|>`. */
export const GEMMA: ToolFormat = {
  name: 'gemma',
  openings: [OPENING],
  repeats: true,
  separator: '""',
  *parse({ reader, writer }) {
    const name = yield* reader.name('{<');
    yield* reader.literal('{');
    writer.begin(name);
    yield* members(reader, SYNTAX, 0, '}', ':', (key) => {
      writer.key(key);
      return (json) => writer.json(json);
    });
    writer.closeArguments();
    yield* reader.space();
    yield* reader.literal(END);
  },
  grammar: (grammar) => {
    const syntax = {
      any: gemmaValue(grammar),
      string: gemmaString(grammar),
      rawQuote: QUOTE,
    };
    const call = grammar.anyTool((tool) => {
      const member = (argument: string): string =>
        `${literal(`${argument}:`)} ${grammar.literalValue(tool, argument, syntax)}`;
      return `${literal(`${tool.name}{`)} ${grammar.members(tool, member, '","')} "}"`;
    });
    return `${literal(OPENING)} ${call} ${literal(END)}`;
  },
};

function gemmaString(grammar: CallGrammar): string {
  return grammar.rules.share(`${literal(QUOTE)} ${grammar.textUntil(QUOTE)}`);
}

function gemmaValue(grammar: CallGrammar): string {
  const { rules } = grammar;
  const value = rules.reserve();
  const text = gemmaString(grammar);
  const member = rules.share(`[a-zA-Z0-9_.-]+ ":" ${value}`);
  const object = rules.share(`"{" (${member} ("," ${member})*)? "}"`);
  const list = rules.share(`"[" (${value} ("," ${value})*)? "]"`);
  rules.define(value, `${object} | ${list} | ${text} | number | boolean | null`);
  return value;
}
