import type { Tool } from '../../generation.ts';

/** Text of a call, for templates that do not render calls. `args`: a JSON value with markers. */
export function callText(name: string, args: unknown): string {
  return `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": ${JSON.stringify(args)}}\n</tool_call>`;
}

/** Text of the result of a call, for templates that do not render results. */
export function resultText(content: string): string {
  return `<tool_response>\n${content}\n</tool_response>`;
}

/** Instruction for templates that do not render tools. `parameters` and `description` may have markers. */
export function toolInstruction(tools: readonly Omit<Tool, 'strict'>[]): string {
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

/** The tags of these texts. */
export const FALLBACK_TAGS = '<tools> <tool_call> <tool_response>';
