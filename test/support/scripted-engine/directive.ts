import { ERRORS, type ErrorCode } from '../../../src/core/errors.ts';
import { promptTexts, type GenerationRequest } from '../../../src/core/generation.ts';

/** A function call. */
export interface ScriptedCall {
  name: string;
  /** A JSON object. */
  arguments: unknown;
}

/**
 * The text, speed and faults of one request to a scripted engine. The `…After` faults count from the start of the
 * response, including the tokens of the response that the request continues.
 */
export interface Directive {
  /** Number of tokens of the completion. */
  tokens?: number;
  /** The exact text of the completion. */
  text?: string;
  /** Reasoning of a chat, before the text. */
  reasoning?: string;
  /** Tool calls of a chat, after the text. Without `text`, the completion has no text. */
  calls?: readonly ScriptedCall[];
  /** Time between two tokens, in milliseconds. */
  tokenMs?: number;
  /** Time from the event `started` to the first token, in milliseconds. */
  prefillMs?: number;
  /** Prompt tokens that are reported as computed when `prefillMs` begins. */
  prefillTokens?: number;
  /** Time from getting a slot to the event `started`, in milliseconds. */
  startMs?: number;
  /** Number of prompt tokens reported as cached, at most the prompt tokens. Overrides the simulated cache. */
  cachedTokens?: number;
  /** Whether to skip the faults if the request continues another response. */
  once?: boolean;
  /** Refuses the request with this code. */
  error?: ErrorCode;
  /** Fails with `internal_error` after this many tokens. */
  errorAfter?: number;
  /** Kills the engine's process with SIGKILL after this many tokens. */
  dieAfter?: number;
  /** Stops the progress of all requests after this many tokens. */
  hangAfter?: number;
  /** Blocks the engine's event loop forever after this many tokens. */
  freezeAfter?: number;
  /** Sends invalid JSON after this many frames. */
  garbageAfter?: number;
  /** Closes the connection after this many frames. */
  cutAfter?: number;
  /** Ends the stream after this many frames, as if it were complete. */
  endAfter?: number;
  /** Responds with this status and `body`. */
  status?: number;
  /** Response body for `status`. */
  body?: string;
}

/**
 * Functions that check the value of each field. They do not use zod, which would double the time to start an engine.
 */
const FIELDS: Record<keyof Directive, (value: unknown) => boolean> = {
  tokens: isCount,
  text: isString,
  reasoning: isString,
  calls: (value) => Array.isArray(value) && value.length <= MAX_CALLS && value.every(isCall),
  tokenMs: isCount,
  prefillMs: isCount,
  prefillTokens: isCount,
  startMs: isCount,
  cachedTokens: isCount,
  once: (value) => typeof value === 'boolean',
  error: (value) => isString(value) && Object.hasOwn(ERRORS, value),
  errorAfter: isCount,
  dieAfter: isCount,
  hangAfter: isCount,
  freezeAfter: isCount,
  garbageAfter: isCount,
  cutAfter: isCount,
  endAfter: isCount,
  status: (value) => isCount(value) && value >= 200 && value <= 599,
  body: isString,
};

/** The fields that are faults. */
const FAULTS: readonly (keyof Directive)[] = [
  'error',
  'errorAfter',
  'dieAfter',
  'hangAfter',
  'freezeAfter',
  'garbageAfter',
  'cutAfter',
  'endAfter',
  'status',
];

/** Maximum calls that a replica may send for a choice. */
const MAX_CALLS = 128;

const NONE: Directive = {};
const PREFIX = 'scripted:';

/**
 * Reads the directive `scripted:{…}` at the end of the last prompt or of the last user message. A list
 * `scripted:[{…}, …]` has one for each response after that message, as an agent that calls tools needs; the last one
 * repeats. Throws if the directive is invalid.
 */
export function parseDirective(request: GenerationRequest): Directive {
  const { text, turn } = instructionOf(request);
  const at = text.lastIndexOf(PREFIX);
  if (at === -1) return NONE;
  const value = JSON.parse(text.slice(at + PREFIX.length)) as unknown;
  const directive = checked(Array.isArray(value) ? value[Math.min(turn, value.length - 1)] : value);
  if (directive.once === true && request.continuation !== null) {
    for (const fault of FAULTS) delete directive[fault];
  }
  switch (request.kind) {
    case 'chat':
      return directive;
    case 'text':
    case 'embedding':
    case 'rerank':
      if (directive.reasoning === undefined && directive.calls === undefined) return directive;
      throw new TypeError('reasoning and calls are only for chats');
  }
}

function checked(value: unknown): Directive {
  if (typeof value !== 'object' || value === null) throw new TypeError('expected an object');
  for (const [name, field] of Object.entries(value)) {
    if (!Object.hasOwn(FIELDS, name)) throw new TypeError(`unknown field ${name}`);
    if (!FIELDS[name as keyof Directive](field)) throw new TypeError(`invalid value of ${name}`);
  }
  return value;
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 1_000_000;
}

function isCall(value: unknown): value is ScriptedCall {
  const { name, arguments: object } = (value ?? {}) as Partial<ScriptedCall>; // Each field is checked here.
  return (
    isString(name) && name !== '' && typeof object === 'object' && object !== null && !Array.isArray(object)
  );
}

function isString(value: unknown): value is string {
  return typeof value === 'string';
}

/** Formats a directive, or those of the responses after a user message, as a prompt. */
export function scripted(directive: Directive | readonly Directive[]): string {
  return PREFIX + JSON.stringify(directive);
}

/** Returns the text with the directive, and the number of responses after it. */
function instructionOf(request: GenerationRequest): { text: string; turn: number } {
  switch (request.kind) {
    case 'chat': {
      const at = request.messages.findLastIndex(({ role }) => role === 'user');
      const turn = request.messages.slice(at + 1).filter(({ role }) => role === 'assistant').length;
      return { text: request.messages[at]?.content ?? '', turn };
    }
    case 'text':
    case 'embedding':
    case 'rerank':
      return { text: promptTexts(request).at(-1) ?? '', turn: 0 };
  }
}
