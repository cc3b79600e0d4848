import type { Tool } from '../../../core/generation.ts';
import { escapeJson } from '../../../json/values.ts';
import { literal } from '../grammar/grammar-rules.ts';
import type { CallGrammar } from './call-grammar.ts';
import { callList, parseJson } from './json-call.ts';
import type { CallParsing, ToolFormat } from './tool-format.ts';
import { isSpace, MalformedCall, type Parsing, type PieceReader } from './piece-reader.ts';
import { PYTHON_CONSTANTS } from './tag-formats.ts';

const PYTHON_SYNTAX: LiteralSyntax = { quotes: ["'", '"'], rawQuote: null };

/** LFM 2: `<|tool_call_start|>[f(a='x', b=1)]<|tool_call_end|>`. */
export const LFM2: ToolFormat = {
  name: 'lfm2',
  openings: ['<|tool_call_start|>'],
  place: 'anywhere',
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
    `"<|tool_call_start|>" ws "[" ${grammar.list(pythonCallRule(grammar), '"," sp')} "]<|tool_call_end|>"`,
};

const PYTHON_START = '<|python_start|>';

/** Llama 4: the entire output is `[f(a='x', b=1)]`, sometimes after `<|python_start|>`. */
export const LLAMA4: ToolFormat = {
  name: 'llama4',
  openings: [PYTHON_START],
  place: 'anywhere',
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
    yield* leadingArguments(call, opening.slice(1, -1));
    writer.end();
    yield* reader.space();
    if ((yield* reader.oneOf([',', ']'])) === ',') yield* callList(call, pythonCall);
  },
  grammar: (grammar) => `("${PYTHON_START}" ws)? "[" ${grammar.list(pythonCallRule(grammar), '"," sp')} "]"`,
};

function* pythonCall(call: CallParsing): Parsing<void> {
  const name = yield* call.reader.name('()[]<');
  yield* call.reader.literal('(');
  yield* pythonArguments(call, name);
}

/** Reads arguments after their `(`, up to and including the `)`. */
function* pythonArguments({ reader, writer, accept }: CallParsing, name: string): Parsing<void> {
  accept(name);
  writer.begin(name);
  yield* members(reader, PYTHON_SYNTAX, 0, ')', '=', (key) => {
    writer.key(key);
    return (json) => writer.json(json);
  });
  writer.closeArguments();
}

/** Like `pythonArguments`. A list such as `[f(x)]` can also be text, so it is a call only with a known argument or none. */
function* leadingArguments({ reader, writer, accept }: CallParsing, name: string): Parsing<void> {
  const begin = (): void => {
    accept(name);
    writer.begin(name);
  };
  yield* members(reader, PYTHON_SYNTAX, 0, ')', '=', (key, isFirst) => {
    if (!writer.hasArgument(name, key)) throw new MalformedCall();
    if (isFirst) begin();
    writer.key(key);
    return (json) => writer.json(json);
  });
  if (!writer.isOpen) begin();
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

const OPENING = '<|tool_call>call:';
const QUOTE = '<|"|>';
const END = '<tool_call|>';

const GEMMA_SYNTAX: LiteralSyntax = { quotes: ['"'], rawQuote: QUOTE };

/** Gemma 4: `<|tool_call>call:f{a:<|"|>x<|"|>,b:{c:[1,true]}}<tool_call|>`. */
export const GEMMA: ToolFormat = {
  name: 'gemma',
  openings: [OPENING],
  place: 'anywhere',
  repeats: true,
  separator: '""',
  *parse({ reader, writer, accept }) {
    const name = yield* reader.name('{<');
    yield* reader.literal('{');
    accept(name);
    writer.begin(name);
    yield* members(reader, GEMMA_SYNTAX, 0, '}', ':', (key) => {
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

/** The syntax of values that are converted to JSON. */
interface LiteralSyntax {
  /** Texts that begin and end a string with escape sequences as in Python. */
  quotes: readonly string[];
  /** A text that begins and ends a string without escape sequences. Null if the syntax has none. */
  rawQuote: string | null;
}

/** Maximum nesting depth of a value. */
const MAX_DEPTH = 64;

/** Reads a string, list, object, number or constant, and passes its JSON to `sink` as it arrives. */
function* literalValue(
  reader: PieceReader,
  syntax: LiteralSyntax,
  sink: (json: string) => void,
  depth = 0,
): Parsing<void> {
  if (depth > MAX_DEPTH) throw new MalformedCall();
  yield* reader.space();
  const quote = yield* reader.firstOf(quotesOf(syntax));
  if (quote !== null) {
    sink('"');
    yield* stringRest(reader, quote, syntax, (text) => sink(escapeJson(text)));
    return sink('"');
  }
  switch (yield* reader.firstOf(['{', '[', '('])) {
    case '{':
      return yield* object(reader, syntax, sink, depth);
    case '[':
      return yield* list(reader, syntax, sink, depth, ']');
    case '(':
      return yield* list(reader, syntax, sink, depth, ')');
    case null:
      return sink(scalarJson(yield* scalar(reader)));
  }
}

/** Reads the rest of an object, after its `{`. */
function* object(
  reader: PieceReader,
  syntax: LiteralSyntax,
  sink: (json: string) => void,
  depth: number,
): Parsing<void> {
  sink('{');
  yield* members(reader, syntax, depth, '}', ':', (key, isFirst) => {
    sink(`${isFirst ? '' : ', '}${JSON.stringify(key)}: `);
    return sink;
  });
  sink('}');
}

/**
 * Reads members, separated by commas, up to and including `end`. A member is a key, `assign` and a value. `begin` is
 * called with each key and returns the sink for its value.
 */
function* members(
  reader: PieceReader,
  syntax: LiteralSyntax,
  depth: number,
  end: string,
  assign: string,
  begin: (key: string, isFirst: boolean) => (json: string) => void,
): Parsing<void> {
  for (let isFirst = true; ; isFirst = false) {
    yield* reader.space();
    if (yield* reader.optional(end)) return;
    const key = yield* memberKey(reader, syntax, assign);
    yield* reader.space();
    yield* reader.literal(assign);
    yield* literalValue(reader, syntax, begin(key, isFirst), depth + 1);
    yield* reader.space();
    if ((yield* reader.oneOf([',', end])) === end) return;
  }
}

function quotesOf({ quotes, rawQuote }: LiteralSyntax): readonly string[] {
  return rawQuote === null ? quotes : [...quotes, rawQuote];
}

function* memberKey(reader: PieceReader, syntax: LiteralSyntax, assign: string): Parsing<string> {
  const quote = yield* reader.firstOf(quotesOf(syntax));
  if (quote === null) return yield* reader.name(assign);
  let key = '';
  yield* stringRest(reader, quote, syntax, (text) => {
    key += text;
    if (key.length > MAX_KEY) throw new MalformedCall();
  });
  return key;
}

/** Maximum length of a quoted key, in UTF-16 code units. */
const MAX_KEY = 1024;

function* list(
  reader: PieceReader,
  syntax: LiteralSyntax,
  sink: (json: string) => void,
  depth: number,
  end: ']' | ')',
): Parsing<void> {
  sink('[');
  for (let isFirst = true; ; isFirst = false) {
    yield* reader.space();
    if (yield* reader.optional(end)) break;
    if (!isFirst) sink(', ');
    yield* literalValue(reader, syntax, sink, depth + 1);
    yield* reader.space();
    if ((yield* reader.oneOf([',', end])) === end) break;
  }
  sink(']');
}

function* stringRest(
  reader: PieceReader,
  quote: string,
  { rawQuote }: LiteralSyntax,
  sink: (text: string) => void,
): Parsing<void> {
  if (quote === rawQuote) return void (yield* reader.until([quote], sink));
  while ((yield* reader.until([quote, '\\'], sink)) === '\\') sink(yield* escapeSequence(reader));
}

/** Reads an escape sequence after its backslash. An unknown one is kept, as in Python. */
function* escapeSequence(reader: PieceReader): Parsing<string> {
  const letter = yield* reader.peek();
  reader.skip(1);
  const simple = SIMPLE_ESCAPES[letter];
  if (simple !== undefined) return simple;
  const length = CODE_LENGTHS[letter];
  if (length === undefined) return `\\${letter}`;
  let digits = '';
  while (digits.length < length && /[0-9a-fA-F]/.test(yield* reader.peek())) {
    digits += yield* reader.peek();
    reader.skip(1);
  }
  const code = Number.parseInt(digits, 16);
  const isValid = digits.length === length && code <= 0x10_ffff;
  return isValid ? String.fromCodePoint(code) : `\\${letter}${digits}`;
}

const SIMPLE_ESCAPES: Readonly<Record<string, string>> = {
  '\\': '\\',
  "'": "'",
  '"': '"',
  '/': '/',
  n: '\n',
  r: '\r',
  t: '\t',
  b: '\b',
  f: '\f',
  v: '\v',
  a: '\u0007',
  '0': '\0',
  '\n': '',
};

/** Number of hexadecimal digits after the letter. */
const CODE_LENGTHS: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/** Maximum length of a number or constant, in UTF-16 code units. */
const MAX_SCALAR = 1024;

function* scalar(reader: PieceReader): Parsing<string> {
  let text = '';
  for (;;) {
    const next = yield* reader.peek();
    if (isSpace(next) || ',]}):'.includes(next)) return text;
    text += next;
    reader.skip(1);
    if (text.length > MAX_SCALAR) throw new MalformedCall();
  }
}

/** Returns the JSON of a number or constant. Empty text becomes null, and an unknown word becomes a string. */
function scalarJson(text: string): string {
  const json = text === '' ? 'null' : (PYTHON_CONSTANTS[text] ?? text);
  if (parseJson(json) !== undefined) return json;
  const digits = text.replaceAll('_', '');
  if (parseJson(digits) !== undefined) return digits;
  const number = Number(digits);
  return Number.isFinite(number) ? JSON.stringify(number) : JSON.stringify(text);
}
