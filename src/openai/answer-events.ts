import { ServiceError } from '../errors.ts';
import type { FinishReason, GenerationEvent, TokenLogprob } from '../generation.ts';
import type { GenerationKind } from './field.ts';
import { readLogprobs } from './logprobs.ts';

/** What a replica sends that is no answer: 503, with what was wrong in `cause`. */
export function unreadable(cause: unknown): ServiceError {
  return new ServiceError('engine_unavailable', 'The engine of this model sent an invalid response.', {
    cause,
  });
}

/** An answer that stopped before it was finished. */
export function brokenOff(cause: string): ServiceError {
  return new ServiceError('engine_unavailable', 'The response of the engine of this model was cut off.', {
    cause: new Error(cause),
  });
}

/** One choice of a chunk or a whole answer, whatever the dialect. */
export interface ReadChoice {
  index: number;
  text: string;
  /** Reasoning of a chat model; '' where there is none. */
  reasoning: string;
  logprobs: readonly TokenLogprob[] | null;
  reason: FinishReason | null;
}

/** Reads the `choices` of a chunk or a whole answer. Throws `engine_unavailable`. */
export function readChoices(kind: GenerationKind, value: unknown): ReadChoice[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw unreadable(new Error('`choices` is not an array'));
  return value.map((choice) => readChoice(kind, choice));
}

interface WireMessage {
  content?: unknown;
  reasoning_content?: unknown;
  /** The name that vLLM uses since 0.15. */
  reasoning?: unknown;
}

interface WireChoice {
  index?: unknown;
  text?: unknown;
  delta?: WireMessage | null;
  message?: WireMessage | null;
  logprobs?: unknown;
  finish_reason?: unknown;
}

function readChoice(kind: GenerationKind, value: unknown): ReadChoice {
  if (typeof value !== 'object' || value === null) throw unreadable(new Error('a choice is not an object'));
  const choice = value as WireChoice; // Each field is checked here.
  const index = choice.index ?? 0;
  if (typeof index !== 'number' || !Number.isSafeInteger(index) || index < 0) {
    throw unreadable(new Error('the index of a choice is not a whole number'));
  }
  const message = kind === 'chat' ? (choice.delta ?? choice.message) : null;
  const text = kind === 'chat' ? message?.content : choice.text;
  const reasoning = message?.reasoning_content ?? message?.reasoning;
  const logprobs =
    choice.logprobs === undefined || choice.logprobs === null ? null : readLogprobs(choice.logprobs);
  return {
    index,
    text: typeof text === 'string' ? text : '',
    reasoning: typeof reasoning === 'string' ? reasoning : '',
    logprobs: logprobs !== null && logprobs.length > 0 ? logprobs : null,
    reason: readReason(choice.finish_reason),
  };
}

/** Every dialect's word for the end of a choice; '' is what TGI writes before it. */
function readReason(value: unknown): FinishReason | null {
  if (typeof value !== 'string' || value === '') return null;
  switch (value) {
    case 'length':
    case 'tool_calls':
      return value;
    case 'abort':
    case 'error':
      throw brokenOff(`finish_reason was ${value}`);
    default:
      return 'stop'; // stop, eos_token, stop_sequence, content_filter: the text is over, and not for its length.
  }
}

/** Tokens that the choices of a chunk bring: one for each text, unless log probabilities list them. */
export function countTokens(choices: readonly ReadChoice[]): number {
  let tokens = 0;
  for (const { text, reasoning, logprobs } of choices) {
    tokens += logprobs?.length ?? Number(reasoning !== '') + Number(text !== '');
  }
  return tokens;
}

/**
 * Adds the text of a choice to `events`: its reasoning, then its content. Log probabilities of both come in one
 * list, which goes with the content where there is any.
 */
export function pushText(choice: ReadChoice, completionTokens: number, events: GenerationEvent[]): void {
  const { index, text, reasoning, logprobs } = choice;
  const reasoningAlone = reasoning !== '' && text === '';
  if (reasoning !== '') {
    events.push({
      type: 'reasoning',
      choice: index,
      text: reasoning,
      completionTokens,
      logprobs: reasoningAlone ? logprobs : null,
    });
  }
  if (text !== '' || (logprobs !== null && !reasoningAlone)) {
    events.push({ type: 'token', choice: index, text, completionTokens, logprobs });
  }
}
