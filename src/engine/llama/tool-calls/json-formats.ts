import type { Tool } from '../../../core/generation.ts';
import { literal } from '../grammar/grammar-rules.ts';
import type { CallKeys } from './call-grammar.ts';
import {
  CALL_KEYS,
  callList,
  callMembers,
  callObject,
  jsonArguments,
  jsonNameAfterQuote,
} from './json-call.ts';
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
  place: 'apart',
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

/** For templates that cannot render tools: the format of Hermes, with `toolInstruction` in the system message. */
export const GENERIC: ToolFormat = { ...HERMES, name: 'generic' };

/** Returns the text for the system message that describes the tools and the format of calls. */
export function toolInstruction(tools: readonly Tool[]): string {
  const signatures = tools.map(({ name, description, parameters }) =>
    JSON.stringify({
      type: 'function',
      function: { name, description: description ?? undefined, parameters },
    }),
  );
  return `# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
${signatures.join('\n')}
</tools>

For each function call, return a JSON object with the function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <arguments-json-object>}
</tool_call>`;
}

const LLAMA3_KEYS: CallKeys = { name: 'name', arguments: 'parameters' };

const PYTHON_TAG = '<|python_tag|>';
const LLAMA3_TYPE = String.raw`("\"type\": \"function\", " | "\"type\":\"function\",")?`;

/**
 * Llama 3.1 to 3.3: the answer is `{"name": "f", "parameters": {}}`, sometimes after `<|python_tag|>` and with
 * `"type": "function"` first.
 */
export const LLAMA3: ToolFormat = {
  name: 'llama3',
  openings: [PYTHON_TAG],
  place: 'anywhere',
  leadingOpenings: () => LLAMA3_LEADING,
  repeats: false,
  separator: '""',
  *parse(call) {
    const { reader, opening } = call;
    if (opening === PYTHON_TAG) return yield* callObject(call, LLAMA3_KEYS);
    const name = yield* jsonNameAfterQuote(reader);
    yield* callMembers(call, LLAMA3_KEYS, name);
  },
  grammar: (grammar) =>
    `"${PYTHON_TAG}"? ${grammar.jsonCall(LLAMA3_KEYS, { before: LLAMA3_TYPE, space: 'sp' })}`,
};

/** Each opening ends with the quote before the function's name. */
const LLAMA3_LEADING: readonly string[] = ['{', '{ '].flatMap((brace) =>
  ['', '"type": "function", ', '"type":"function",'].flatMap((type) =>
    ['"name": "', '"name":"'].map((name) => brace + type + name),
  ),
);

/** Mistral Small 3.2, Devstral, Ministral 3: `[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{}`. The ID is optional. */
export const MISTRAL: ToolFormat = {
  name: 'mistral',
  openings: ['[TOOL_CALLS]'],
  place: 'anywhere',
  repeats: true,
  separator: '""',
  *parse(call) {
    const { reader, accept } = call;
    yield* reader.space();
    const name = yield* reader.name('[{<');
    const mark = yield* reader.oneOf(['[CALL_ID]', '[ARGS]']);
    accept(name);
    if (mark === '[CALL_ID]') {
      yield* reader.name('[');
      yield* reader.literal('[ARGS]');
    }
    yield* jsonArguments(call, name);
  },
  grammar: (grammar) => {
    const call = grammar.anyTool(
      (tool) => `${literal(tool.name)} ("[CALL_ID]" [a-zA-Z0-9]{9})? "[ARGS]" ${grammar.object(tool)}`,
    );
    return `"[TOOL_CALLS]" sp ${call}`;
  },
};

/** Mistral Nemo: `[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "123456789"}]`. */
export const MISTRAL_NEMO: ToolFormat = {
  name: 'mistral-nemo',
  openings: ['[TOOL_CALLS]'],
  place: 'anywhere',
  repeats: false,
  separator: '""',
  *parse(call) {
    yield* call.reader.space();
    yield* call.reader.literal('[');
    yield* callList(call, callObject);
  },
  grammar: (grammar) => {
    const after = `("," sp "\\"id\\":" sp "\\"" [a-zA-Z0-9]{9} "\\"")?`;
    return `"[TOOL_CALLS]" sp "[" ${grammar.list(grammar.jsonCall(CALL_KEYS, { after }), '"," sp')} "]"`;
  },
};

/** Phi 4 mini: `functools[{"name": "f", "arguments": {}}]`. */
export const PHI: ToolFormat = {
  name: 'phi',
  openings: ['functools['],
  place: 'apart',
  repeats: false,
  separator: '""',
  *parse(call) {
    yield* callList(call, callObject);
  },
  grammar: (grammar) => `"functools[" ${grammar.list(grammar.jsonCall(CALL_KEYS), '"," sp')} "]"`,
};

const KIMI_BEGIN = '<|tool_calls_section_begin|>';
const KIMI_CALL = '<|tool_call_begin|>';
const KIMI_ARGUMENTS = '<|tool_call_argument_begin|>';
const KIMI_CALL_END = '<|tool_call_end|>';
const KIMI_END = '<|tool_calls_section_end|>';

/** Kimi K2: the ID `functions.f:0`, between control tokens, contains the name and the index of the call. */
export const KIMI: ToolFormat = {
  name: 'kimi',
  openings: [KIMI_BEGIN],
  place: 'anywhere',
  repeats: false,
  separator: '""',
  *parse(call) {
    const { reader, writer, accept } = call;
    yield* reader.space();
    while ((yield* reader.oneOf([KIMI_CALL, KIMI_END])) === KIMI_CALL) {
      const id = yield* reader.name('<');
      const name = id.replace(/^functions\./, '').replace(/:\d+$/, '');
      accept(name);
      yield* reader.literal(KIMI_ARGUMENTS);
      yield* jsonArguments(call, name);
      yield* reader.space();
      yield* reader.literal(KIMI_CALL_END);
      writer.end();
      yield* reader.space();
    }
  },
  grammar: (grammar) => {
    const call = grammar.anyTool(
      (tool) =>
        `${literal(`functions.${tool.name}:`)} [0-9]{1,3} ${literal(KIMI_ARGUMENTS)} ${grammar.object(tool)}`,
    );
    const element = grammar.rules.share(`${literal(KIMI_CALL)} ${call} ${literal(KIMI_CALL_END)}`);
    return `${literal(KIMI_BEGIN)} ws ${grammar.list(element, '""')} ${literal(KIMI_END)}`;
  },
};

const DEEPSEEK_BEGIN = '<｜tool▁calls▁begin｜>';
const DEEPSEEK_CALL = '<｜tool▁call▁begin｜>';
const DEEPSEEK_SEPARATOR = '<｜tool▁sep｜>';
const DEEPSEEK_CALL_END = '<｜tool▁call▁end｜>';
const DEEPSEEK_END = '<｜tool▁calls▁end｜>';

/** The shape of a call. `fenced` is true if the arguments are in a fenced code block. */
interface DeepseekStyle {
  name: string;
  fenced: boolean;
}

/** DeepSeek R1 and V3: the word `function` comes before the name, and the arguments are in a fenced code block. */
export const DEEPSEEK_R1: ToolFormat = deepseek({ name: 'deepseek-r1', fenced: true });

/** DeepSeek V3.1: `<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>`. */
export const DEEPSEEK: ToolFormat = deepseek({ name: 'deepseek', fenced: false });

function deepseek({ name: format, fenced }: DeepseekStyle): ToolFormat {
  return {
    name: format,
    openings: [DEEPSEEK_BEGIN],
    place: 'anywhere',
    repeats: false,
    separator: '""',
    *parse(call) {
      const { reader, writer, accept } = call;
      yield* reader.space();
      while ((yield* reader.oneOf([DEEPSEEK_CALL, DEEPSEEK_END])) === DEEPSEEK_CALL) {
        let name = yield* reader.name('<\n');
        yield* reader.literal(DEEPSEEK_SEPARATOR);
        if (fenced) name = yield* reader.name('\n');
        accept(name);
        if (fenced) {
          yield* reader.space();
          yield* reader.literal('```json');
        }
        yield* jsonArguments(call, name);
        yield* reader.space();
        if (fenced) yield* reader.literal('```');
        yield* reader.space();
        yield* reader.literal(DEEPSEEK_CALL_END);
        writer.end();
        yield* reader.space();
      }
    },
    grammar: (grammar) => {
      const call = grammar.anyTool((tool) =>
        fenced
          ? `${literal(`function${DEEPSEEK_SEPARATOR}${tool.name}\n\`\`\`json\n`)} ${grammar.object(tool)} "\\n\`\`\`"`
          : `${literal(tool.name + DEEPSEEK_SEPARATOR)} ${grammar.object(tool)}`,
      );
      const element = grammar.rules.share(`${literal(DEEPSEEK_CALL)} ${call} ${literal(DEEPSEEK_CALL_END)}`);
      return `${literal(DEEPSEEK_BEGIN)} ws ${grammar.list(element, '"\\n"?')} ${literal(DEEPSEEK_END)}`;
    },
  };
}

/** gpt-oss: `<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>`. The channel may come after `to`. */
export const HARMONY: ToolFormat = {
  name: 'harmony',
  openings: [' to=functions.'],
  place: 'header',
  repeats: false,
  separator: '""',
  *parse(call) {
    const { reader, accept } = call;
    const name = yield* reader.name(' <\n');
    accept(name);
    yield* reader.until(['<|message|>'], () => {});
    yield* jsonArguments(call, name);
  },
  grammar: (grammar) => {
    const type = '(" " [a-zA-Z]{1,12} | " "? "<|constrain|>" [a-zA-Z]{1,12})?';
    const call = grammar.anyTool(
      (tool) =>
        `${literal(tool.name)} "<|channel|>commentary"? ${type} "<|message|>" ${grammar.object(tool)}`,
    );
    return `" to=functions." ${call}`;
  },
  preamble: '"<|start|>assistant"? "<|channel|>commentary"?',
};
