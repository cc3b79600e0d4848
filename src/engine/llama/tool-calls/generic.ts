import type { Tool } from '../../../generation.ts';
import { HERMES } from './hermes.ts';
import type { ToolFormat } from './tool-format.ts';

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
