import type { CallKeys } from './call-grammar.ts';
import { CALL_KEYS, callList, callObject } from './json-call.ts';
import { literal } from '../grammar-rules.ts';
import type { ToolFormat } from './tool-format.ts';

/** Nemotron Nano 2: `<TOOLCALL>[{"name": "f", "arguments": {}}]</TOOLCALL>`. */
export const NEMOTRON = jsonList({
  name: 'nemotron',
  open: '<TOOLCALL>',
  close: '</TOOLCALL>',
  keys: CALL_KEYS,
});

/** Command R7B and A: `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {}}]<|END_ACTION|>`. */
export const COHERE = jsonList({
  name: 'cohere',
  open: '<|START_ACTION|>',
  close: '<|END_ACTION|>',
  keys: { name: 'tool_name', arguments: 'parameters' },
  before: String.raw`("\"tool_call_id\":" sp "\"" [0-9]{1,3} "\"," sp)?`,
});

interface JsonListOptions {
  name: string;
  open: string;
  close: string;
  keys: CallKeys;
  /** GBNF expression for the members before the name. Default: none. */
  before?: string;
}

/** Returns a format that has a JSON list of calls between two texts. */
function jsonList({ name, open, close, keys, before = '' }: JsonListOptions): ToolFormat {
  return {
    name,
    openings: [open],
    repeats: false,
    separator: '""',
    *parse(call) {
      yield* call.reader.space();
      yield* call.reader.literal('[');
      yield* callList(call, (each) => callObject(each, keys));
      yield* call.reader.space();
      yield* call.reader.literal(close);
    },
    grammar: (grammar) => {
      const list = grammar.list(grammar.jsonCall(keys, { before }), '"," ws');
      return `${literal(open)} "[" ws ${list} ws "]" ${literal(close)}`;
    },
  };
}
