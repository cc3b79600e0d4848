import { z } from 'zod';
import { ERRORS, type ErrorCode } from '../../errors.ts';
import type { GenerationRequest } from '../../generation.ts';

/** The behavior of a scripted engine without a directive. */
export interface ScriptedOptions {
  /** Maximum concurrent requests. */
  slots: number;
  /** Maximum requests that wait for a slot; more are refused with `queue_full`. */
  queue: number;
  /** Maximum tokens of a prompt and its completion together. */
  contextTokens: number;
  /** Length of a completion without a limit or stop sequence. */
  tokens: number;
  /** Time between two tokens, in milliseconds; 0: no pause. */
  tokenMs: number;
  /** Time from slot to first token, in milliseconds. */
  prefillMs: number;
  /** Loading time, in milliseconds. */
  loadMs: number;
}

export const SCRIPTED_DEFAULTS: ScriptedOptions = {
  slots: 8,
  queue: 1024,
  contextTokens: 4096,
  tokens: 16,
  tokenMs: 0,
  prefillMs: 0,
  loadMs: 0,
};

const count = z.int().min(0).max(1_000_000);
const codes = Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]];

const directive = z.strictObject({
  tokens: count.optional().describe('Number of tokens of the completion.'),
  text: z.string().optional().describe('The exact text of the completion.'),
  tokenMs: count.optional().describe('Time between two tokens, in milliseconds.'),
  prefillMs: count.optional().describe('Time from slot to first token, in milliseconds.'),
  startMs: count.optional().describe('Time until the request gets its slot, in milliseconds.'),
  cachedTokens: count
    .optional()
    .describe('Number of prompt tokens reported as cached, at most the prompt tokens.'),
  error: z.enum(codes).optional().describe('Refuses the request with this code.'),
  errorAfter: count.optional().describe('Fails with `internal_error` after this many tokens.'),
  dieAfter: count.optional().describe('Kills its own process with SIGKILL after this many tokens.'),
  hangAfter: count.optional().describe('Stops the progress of all requests after this many tokens.'),
  freezeAfter: count.optional().describe('Blocks its event loop forever after this many tokens.'),
  garbageAfter: count.optional().describe('Sends invalid JSON after this many frames.'),
  cutAfter: count.optional().describe('Closes the connection after this many frames.'),
  endAfter: count.optional().describe('Ends the stream as if it were complete after this many frames.'),
  noUsage: z.boolean().optional().describe('Omits the usage from every frame.'),
  status: z.int().min(200).max(599).optional().describe('Responds with this status and `body`.'),
  body: z.string().optional().describe('Response body for `status`.'),
});

/** The text, speed and faults of one request to a scripted engine. Counts start at 0 for each request. */
export type Directive = z.output<typeof directive>;

const NONE: Directive = {};
const PREFIX = 'scripted:';

/** Reads `scripted:{…}` at the end of the last user message or prompt. Throws if it is invalid. */
export function parseDirective(request: GenerationRequest): Directive {
  const text = promptText(request);
  const at = text.lastIndexOf(PREFIX);
  return at === -1 ? NONE : directive.parse(JSON.parse(text.slice(at + PREFIX.length)));
}

/** Formats a directive as a prompt. */
export function scripted(directive: Directive): string {
  return PREFIX + JSON.stringify(directive);
}

function promptText(request: GenerationRequest): string {
  if (request.kind === 'text') return request.prompts.at(-1) ?? '';
  return request.messages.findLast((message) => message.role === 'user')?.content ?? '';
}
