import { z } from 'zod';
import { ERRORS, type ErrorCode } from '../../errors.ts';
import type { GenerationRequest } from '../../generation.ts';

/** How a scripted engine behaves unless a request says otherwise. */
export interface ScriptedOptions {
  /** Requests that generate at once; the others wait. */
  slots: number;
  /** Requests that may wait for a slot; one more is `queue_full`. */
  queue: number;
  /** Tokens of a prompt and its completion together. */
  contextTokens: number;
  /** Tokens of a completion that no limit or stop sequence ends earlier. */
  tokens: number;
  /** Time between two tokens, in milliseconds; 0: as fast as the machine can. */
  tokenMs: number;
  /** Time between getting a slot and the first token, in milliseconds. */
  prefillMs: number;
  /** How long the program takes to be ready, in milliseconds. */
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
// Every key of the table of errors, and there is at least one.
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

/** What one request asks of a scripted engine: text, speed and faults. Counts begin at the request's first. */
export type Directive = z.output<typeof directive>;

const NONE: Directive = {};
const MARK = 'scripted:';

/**
 * Reads the directive in a request: `scripted:{…}`, standing last in its last user message or prompt.
 * One that is no JSON or has an unknown field is a programming error of the caller and throws.
 */
export function directiveOf(request: GenerationRequest): Directive {
  const text = promptText(request);
  const at = text.lastIndexOf(MARK);
  return at === -1 ? NONE : directive.parse(JSON.parse(text.slice(at + MARK.length)));
}

/** The directive as a prompt: for tests and load runs. */
export function scripted(directive: Directive): string {
  return MARK + JSON.stringify(directive);
}

function promptText(request: GenerationRequest): string {
  if (request.kind === 'text') return request.prompts.at(-1) ?? '';
  return request.messages.findLast((message) => message.role === 'user')?.content ?? '';
}
