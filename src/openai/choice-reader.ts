import {
  isCutOff,
  type FinishReason,
  type GenerationEvent,
  type GenerationKind,
  type TextEvent,
  type TokenLogprob,
} from '../generation.ts';
import { incompleteResponse, invalidResponse } from './invalid-response.ts';
import { readLogprobs } from './logprobs.ts';
import { readToolCalls, ToolCallReader, type ReplicaCall } from './tool-call-reader.ts';
import type { ReceivedTokens } from './usage-meter.ts';
import { asList, jsonObject } from './values.ts';

/** One choice of a chunk or a response, in any dialect. */
export interface ReplicaChoice {
  index: number;
  text: string;
  /** Reasoning of a chat model, or ''. */
  reasoning: string;
  calls: readonly ReplicaCall[];
  logprobs: readonly TokenLogprob[] | null;
  reason: FinishReason | null;
  /** IDs of the tokens of this part; null if the replica sends none. */
  tokenIds: readonly number[] | null;
}

/**
 * Reads the `choices` of a chunk or a response. `count`: the choices of the request. Throws `engine_unavailable`, also for
 * other choices.
 */
export function readChoices(kind: GenerationKind, value: unknown, count: number): ReplicaChoice[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw invalidResponse(new Error('`choices` is not an array'));
  return value.map((choice) => readChoice(kind, choice, count));
}

interface WireMessage {
  content?: unknown;
  /** OpenAI's models return either content or a refusal. */
  refusal?: unknown;
  reasoning_content?: unknown;
  /** The name in vLLM since 0.15. */
  reasoning?: unknown;
  tool_calls?: unknown;
}

interface WireChoice {
  index?: unknown;
  text?: unknown;
  delta?: WireMessage | null;
  message?: WireMessage | null;
  logprobs?: unknown;
  finish_reason?: unknown;
  token_ids?: unknown;
}

function readChoice(kind: GenerationKind, value: unknown, count: number): ReplicaChoice {
  if (typeof value !== 'object' || value === null)
    throw invalidResponse(new Error('a choice is not an object'));
  const choice = value as WireChoice; // Each field is checked here.
  const index = choice.index ?? 0;
  if (typeof index !== 'number' || !Number.isInteger(index) || index < 0 || index >= count) {
    throw invalidResponse(new Error(`the index of a choice is not a whole number below ${count}`));
  }
  const logprobs = readLogprobs(choice.logprobs);
  return {
    index,
    ...readOutput(kind, choice),
    logprobs: logprobs !== null && logprobs.length > 0 ? logprobs : null,
    reason: readFinishReason(choice.finish_reason),
    tokenIds: readTokenIds(choice.token_ids),
  };
}

/**
 * Converts the `finish_reason` of a replica in any dialect. Unknown reasons become `stop`: the response is complete, and
 * clients expect the reasons of OpenAI. Returns null before the end of a choice, where TGI sends ''. Throws
 * `engine_unavailable` if the server failed during the response.
 */
function readFinishReason(value: unknown): FinishReason | null {
  if (typeof value !== 'string' || value === '') return null;
  switch (value.toLowerCase()) {
    case 'length':
    case 'max_tokens': // Anthropic, Gemini.
    case 'model_length': // Mistral.
    case 'model_context_window_exceeded': // Anthropic, Z.ai.
      return 'length';
    case 'tool_calls':
    case 'function_call': // The older name in OpenAI's API.
    case 'tool_use': // Anthropic.
      return 'tool_calls';
    case 'content_filter':
    case 'refusal': // Anthropic.
    case 'sensitive': // Z.ai.
    // Gemini.
    case 'safety':
    case 'recitation':
    case 'blocklist':
    case 'prohibited_content':
    case 'spii':
      return 'content_filter';
    case 'abort': // vLLM, SGLang.
    case 'error':
    case 'network_error': // Z.ai.
    case 'insufficient_system_resource': // DeepSeek.
      throw incompleteResponse(`finish_reason was ${value}`);
    default: // Such as stop, end_turn, eos_token or stop_sequence.
      return 'stop';
  }
}

/** Reads token IDs. Returns null for anything but an array of them. */
export function readTokenIds(value: unknown): readonly number[] | null {
  return Array.isArray(value) && value.every((id) => Number.isInteger(id) && id >= 0) ? value : null;
}

/** Reads what the model generated. */
function readOutput(
  kind: GenerationKind,
  { delta, message: whole, text }: WireChoice,
): Pick<ReplicaChoice, 'text' | 'reasoning' | 'calls'> {
  switch (kind) {
    case 'chat': {
      const message = delta ?? whole;
      return {
        text: asText(message?.content ?? message?.refusal) + textOf(message?.content, 'text'),
        reasoning:
          asText(message?.reasoning_content ?? message?.reasoning) + textOf(message?.content, 'thinking'),
        calls: readToolCalls(message?.tool_calls, message === whole),
      };
    }
    case 'text':
      return { text: asText(text), reasoning: '', calls: [] };
  }
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/**
 * Joins the text of the content parts of one type. Mistral's reasoning models send content as an array of parts, and
 * a `thinking` part contains an array of text parts.
 */
function textOf(parts: unknown, type: 'text' | 'thinking'): string {
  const found = asList(parts).map(jsonObject);
  return found
    .filter((part) => part['type'] === type)
    .map((part) => asText(part[type]) + textOf(part[type], 'text'))
    .join('');
}

/**
 * Estimates the number of tokens in a chunk. If it has log probabilities, each is one token. Otherwise each text,
 * reasoning text and part of a tool call counts as one token.
 */
export function countTokens(choices: readonly ReplicaChoice[]): ReceivedTokens {
  let tokens = 0;
  let reasoningTokens = 0;
  for (const { text, reasoning, calls, logprobs } of choices) {
    const parts = calls.filter((call) => call.name !== null || call.arguments !== '').length;
    const rest = Number(text !== '') + parts;
    const ofReasoning = reasoning === '' ? 0 : rest === 0 ? (logprobs?.length ?? 1) : 1;
    tokens += logprobs?.length ?? ofReasoning + rest;
    reasoningTokens += ofReasoning;
  }
  return { tokens, reasoningTokens };
}

/** Converts the parts of one choice into events, up to its finish. */
export class ChoiceReader {
  readonly #choice: number;
  readonly #calls: ToolCallReader;
  /** IDs of the tokens since the last event with IDs. */
  #tokenIds: number[] = [];
  #finished = false;

  /** `offered` are the names of the functions in the request. */
  constructor(choice: number, offered: readonly string[] = []) {
    this.#choice = choice;
    this.#calls = new ToolCallReader(choice, offered);
  }

  get finished(): boolean {
    return this.#finished;
  }

  /** Adds the events of a part. Ignores parts after the finish: some servers send it twice. */
  push(part: ReplicaChoice, completionTokens: number, events: GenerationEvent[]): void {
    if (this.#finished) return;
    const from = events.length;
    this.#pushText(part, completionTokens, events);
    for (const call of part.calls) this.#calls.push(call, completionTokens, events);
    if (part.tokenIds !== null)
      this.#addTokenIds(part.tokenIds, events.length > from ? events.at(-1) : undefined);
    if (part.reason === null) return;
    this.#finished = true;
    this.#calls.end(completionTokens, events, isCutOff(part.reason));
    events.push({ type: 'finish', choice: this.#choice, reason: this.#reasonOf(part.reason) });
  }

  /** Adds the pending `#tokenIds` to this event, before its own ID. The event is a single token. */
  addPendingIds(event: TextEvent): void {
    if (event.tokenIds !== undefined) this.#addTokenIds(event.tokenIds, event);
  }

  /**
   * Adds an ID to the last event of its part. Keeps it for a later event if `last` cannot have IDs, as well as the IDs of
   * several tokens: the part may lack the text of the last ones, because they are the start of a character.
   */
  #addTokenIds(ids: readonly number[], last: GenerationEvent | undefined): void {
    for (const id of ids) this.#tokenIds.push(id);
    if (last === undefined || !('completionTokens' in last)) return;
    if (ids.length !== 1) return;
    last.tokenIds = this.#tokenIds;
    this.#tokenIds = [];
  }

  /** Adds reasoning, then text. Log probabilities go with the text if there is any; those of calls are dropped. */
  #pushText(part: ReplicaChoice, completionTokens: number, events: GenerationEvent[]): void {
    const { text, reasoning, logprobs } = part;
    const choice = this.#choice;
    const withText = text !== '' || (reasoning === '' && part.calls.length === 0);
    if (reasoning !== '') {
      events.push({
        type: 'reasoning',
        choice,
        text: reasoning,
        completionTokens,
        logprobs: withText ? null : logprobs,
      });
    }
    if (text !== '' || (logprobs !== null && withText)) {
      events.push({ type: 'token', choice, text, completionTokens, logprobs });
    }
  }

  /**
   * Reports `tool_calls` after any call: some servers report `stop`, but clients run functions only for `tool_calls`.
   */
  #reasonOf(reason: FinishReason): FinishReason {
    if (isCutOff(reason)) return reason;
    return this.#calls.count > 0 ? 'tool_calls' : 'stop';
  }
}
