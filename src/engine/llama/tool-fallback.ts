/** Returns the text of a call, for templates that do not render calls. `args` is a JSON value with markers. */
export function callText(name: string, args: unknown): string {
  return `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": ${JSON.stringify(args)}}\n</tool_call>`;
}

/** Returns the text of a call's result, for templates that do not render results. */
export function resultText(content: string): string {
  return `<tool_response>\n${content}\n</tool_response>`;
}

/** The tags in these texts and in `toolInstruction` (`tool-calls/generic.ts`). */
export const FALLBACK_TAGS = '<tools></tools><tool_call></tool_call><tool_response></tool_response>';
