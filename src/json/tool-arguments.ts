import { parseExactJson } from './exact-json.ts';
import { asList, jsonObject } from './values.ts';

/**
 * Replaces arguments that are not texts (TGI sends objects) with their JSON. `json` is the text of the chunk or response,
 * from which numbers keep their digits.
 */
export function writeArguments(reply: object, json: string): void {
  let exact: readonly Record<string, unknown>[] | null = null;
  for (const [position, called] of functionsOf(reply).entries()) {
    const { arguments: value = null } = called;
    if (value === null || typeof value === 'string') continue;
    exact ??= functionsOf(parseExactJson(json));
    called['arguments'] = JSON.stringify(exact[position]?.['arguments']);
  }
}

/** Returns the functions that a chunk or a response calls. */
function functionsOf(reply: unknown): readonly Record<string, unknown>[] {
  const functions: Record<string, unknown>[] = [];
  for (const choice of asList(jsonObject(reply)['choices'])) {
    const { delta, message } = jsonObject(choice);
    const { tool_calls: calls } = jsonObject(delta ?? message);
    for (const call of asCalls(calls)) functions.push(jsonObject(jsonObject(call)['function']));
  }
  return functions;
}

/** Older releases of TGI send one object in a delta. */
export function asCalls(value: unknown): readonly unknown[] {
  if (value === undefined || value === null) return [];
  return Array.isArray(value) ? value : [value];
}
