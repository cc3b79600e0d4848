import { CALL_KEYS, callList, callObject } from './json-call.ts';
import type { ToolFormat } from './tool-format.ts';

/** Phi 4 mini: `functools[{"name": "f", "arguments": {}}]`. */
export const PHI: ToolFormat = {
  name: 'phi',
  openings: ['functools['],
  repeats: false,
  separator: '""',
  *parse(call) {
    yield* callList(call, callObject);
  },
  grammar: (grammar) => `"functools[" ${grammar.list(grammar.jsonCall(CALL_KEYS), '"," sp')} "]"`,
};
