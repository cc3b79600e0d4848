import { ServiceError } from '../errors.ts';
import type { FinishReason, GenerationEvent, TokenLogprob } from '../generation.ts';
import type { GenerationKind } from './field.ts';
import { readLogprobs } from './logprobs.ts';

/** The error for an invalid response of a replica. */
export function invalidResponse(cause: unknown): ServiceError {
  return new ServiceError('engine_unavailable', 'The engine of this model sent an invalid response.', {
    cause,
  });
}

/** The error for a response that ended early. */
export function incompleteResponse(cause: string): ServiceError {
  return new ServiceError('engine_unavailable', 'The response of the engine of this model was cut off.', {
    cause: new Error(cause),
  });
}

/** Parses a JSON object of a replica. `name` is for the error. Throws `engine_unavailable`. */
export function parseObject(json: string, name: string): object {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    // The parser's message quotes generated text, which must not be logged.
    throw invalidResponse(new Error(`${name} is not JSON`));
  }
  if (typeof value !== 'object' || value === null) {
    throw invalidResponse(new Error(`${name} is not an object`));
  }
  return value;
}

/** One choice of a chunk or a response, in any dialect. */
export interface ReplicaChoice {
  index: number;
  text: string;
  /** Reasoning of a chat model, or ''. */
  reasoning: string;
  logprobs: readonly TokenLogprob[] | null;
  reason: FinishReason | null;
}

/** Reads the `choices` of a chunk or a response. Throws `engine_unavailable`. */
export function readChoices(kind: GenerationKind, value: unknown): ReplicaChoice[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw invalidResponse(new Error('`choices` is not an array'));
  return value.map((choice) => readChoice(kind, choice));
}

interface WireMessage {
  content?: unknown;
  reasoning_content?: unknown;
  /** The name in vLLM since 0.15. */
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

function readChoice(kind: GenerationKind, value: unknown): ReplicaChoice {
  if (typeof value !== 'object' || value === null)
    throw invalidResponse(new Error('a choice is not an object'));
  const choice = value as WireChoice; // Each field is checked here.
  const index = choice.index ?? 0;
  if (typeof index !== 'number' || !Number.isSafeInteger(index) || index < 0) {
    throw invalidResponse(new Error('the index of a choice is not a whole number'));
  }
  const message = kind === 'chat' ? (choice.delta ?? choice.message) : null;
  const text = kind === 'chat' ? message?.content : choice.text;
  const reasoning = message?.reasoning_content ?? message?.reasoning;
  const logprobs = readLogprobs(choice.logprobs);
  return {
    index,
    text: typeof text === 'string' ? text : '',
    reasoning: typeof reasoning === 'string' ? reasoning : '',
    logprobs: logprobs !== null && logprobs.length > 0 ? logprobs : null,
    reason: readReason(choice.finish_reason),
  };
}

/** Reads a `finish_reason` of any dialect. TGI sends '' before the end. */
function readReason(value: unknown): FinishReason | null {
  if (typeof value !== 'string' || value === '') return null;
  switch (value) {
    case 'length':
    case 'tool_calls':
      return value;
    case 'abort':
    case 'error':
      throw incompleteResponse(`finish_reason was ${value}`);
    default:
      return 'stop'; // stop, eos_token, stop_sequence or content_filter.
  }
}

/** Counts the tokens of a chunk: the listed log probabilities, or else one per text. */
export function countTokens(choices: readonly ReplicaChoice[]): number {
  let tokens = 0;
  for (const { text, reasoning, logprobs } of choices) {
    tokens += logprobs?.length ?? Number(reasoning !== '') + Number(text !== '');
  }
  return tokens;
}

/** Adds the reasoning and then the text of a choice to `events`. Log probabilities go with the text if there is any. */
export function pushText(choice: ReplicaChoice, completionTokens: number, events: GenerationEvent[]): void {
  const { index, text, reasoning, logprobs } = choice;
  const reasoningOnly = reasoning !== '' && text === '';
  if (reasoning !== '') {
    events.push({
      type: 'reasoning',
      choice: index,
      text: reasoning,
      completionTokens,
      logprobs: reasoningOnly ? logprobs : null,
    });
  }
  if (text !== '' || (logprobs !== null && !reasoningOnly)) {
    events.push({ type: 'token', choice: index, text, completionTokens, logprobs });
  }
}
