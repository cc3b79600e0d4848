import { randomBytes } from 'node:crypto';

/** Creates a random ID of a tool call: `call_` and 24 characters, like OpenAI's. */
export function createToolCallId(): string {
  return `call_${randomBytes(12).toString('hex')}`;
}
