import {
  type GenerationKind,
  isCutOff,
  type FinishReason,
  type TextEvent,
  type TokenLogprob,
  type EngineEvent,
  type GenerationEvent,
  type PrefillEvent,
} from '../../core/generation.ts';
import { readErrorFrame } from './replica-error.ts';
import { incompleteResponse, invalidResponse, parseObject } from '../../core/invalid-response.ts';
import { ChunkTemplate } from './chunk-template.ts';
import { MAX_EVENT_BYTES, SseParseError, SseParser, type ServerSentEvent } from '../../support/sse.ts';
import { readUsage, UsageMeter, type ReceivedTokens } from './usage-meter.ts';
import { asList, asText, jsonObject, readCount } from '../../json/values.ts';
import { readLogprobs } from '../../json/logprobs-reader.ts';
import { unpackLogprobs, type PackedLogprobs, type PackedResponse } from '../../json/packed-response.ts';
import { writeArguments } from '../../json/tool-arguments.ts';
import { readToolCalls, ToolCallReader, type ReplicaCall } from './tool-call-reader.ts';
import { WellFormedText } from '../../json/well-formed-text.ts';

const ONE_TOKEN: ReceivedTokens = { tokens: 1, reasoningTokens: 0 };
const ONE_REASONING_TOKEN: ReceivedTokens = { tokens: 1, reasoningTokens: 1 };

/**
 * Converts the server-sent events of a replica of any dialect into the events of a generation. The event `end` is
 * returned after `[DONE]`, or after the end of the body, if every choice has finished. Usage may be in every chunk, in
 * the last one or in a separate one. Without it, `meter` counts deltas and the source is `estimated`.
 *
 * `push` and `end` throw the error of an error frame, or `engine_unavailable` for an invalid or incomplete stream. Do
 * not use a reader again after it has thrown.
 */
export class StreamReader {
  readonly #kind: GenerationKind;
  readonly #offered: readonly string[];
  readonly #parser: SseParser;
  readonly #template: ChunkTemplate;
  #started = false;
  #ended = false;
  /** The choices that have started, by index. */
  readonly #choices = new Map<number, ChoiceReader>();
  readonly #meter: UsageMeter;
  readonly #count: number;

  /** For `offered`, see `ChoiceReader`. `maxEventBytes`: maximum size of an event. `count`: the choices of the request. */
  constructor(
    kind: GenerationKind,
    meter = new UsageMeter(),
    offered: readonly string[] = [],
    maxEventBytes = MAX_EVENT_BYTES,
    count = Infinity,
  ) {
    this.#kind = kind;
    this.#parser = new SseParser(maxEventBytes);
    this.#offered = offered;
    this.#meter = meter;
    this.#count = count;
    this.#template = new ChunkTemplate(kind);
  }

  /** Completion tokens so far: reported by the replica, or counted. */
  get completionTokens(): number {
    return this.#meter.completionTokens;
  }

  /**
   * Returns the events that this chunk completes. Adds them to `events`, so that the caller still receives the events
   * that precede an error.
   */
  push(chunk: Buffer, events: EngineEvent[] = []): EngineEvent[] {
    const token = this.#parser.isBetweenEvents && !this.#ended ? this.#template.read(chunk) : null;
    // A chunk of a choice that has not started, or has finished, is left to the parser.
    const choice = token === null ? undefined : this.#choices.get(token.choice);
    if (token === null || choice?.finished !== false) {
      this.#readEvents(() => this.#parser.push(chunk), events);
      return events;
    }
    choice.addPendingIds(token);
    const received = token.type === 'reasoning' ? ONE_REASONING_TOKEN : ONE_TOKEN;
    this.#meter.record(received, this.#template.usage, token.choice);
    token.completionTokens = this.#meter.completionTokens;
    events.push(token);
    return events;
  }

  /** Returns the remaining events after the end of the body. Adds them to `events`, like `push`. */
  end(events: EngineEvent[] = []): EngineEvent[] {
    this.#readEvents(() => this.#parser.end(), events);
    if (!this.#ended) this.#finishStream(events);
    return events;
  }

  #readEvents(parse: () => ServerSentEvent[], events: EngineEvent[]): void {
    let parsed: ServerSentEvent[];
    try {
      parsed = parse();
    } catch (cause) {
      if (cause instanceof SseParseError) throw invalidResponse(cause);
      throw cause;
    }
    for (const event of parsed) this.#readEvent(event, events);
  }

  #readEvent({ data, error }: ServerSentEvent, events: EngineEvent[]): void {
    if (this.#ended || data === '') return;
    if (data === '[DONE]') {
      this.#finishStream(events);
      return;
    }
    if (error) throw readErrorFrame(data);
    const chunk: WireChunk = parseObject(data, 'a chunk'); // The readers check every field.
    writeArguments(chunk, data);
    if ((chunk.error !== undefined && chunk.error !== null) || chunk.object === 'error')
      throw readErrorFrame(data);
    const usage = readUsage(chunk.usage);
    const choices = readChoices(this.#kind, chunk.choices, this.#count);
    this.#meter.record(
      countTokens(choices),
      usage,
      choices.length === 1 ? (choices[0]?.index ?? null) : null,
    );
    if (!this.#started) {
      this.#started = true;
      const { promptTokens, cachedTokens } = this.#meter;
      const promptTokenIds = readPromptTokenIds(chunk);
      events.push({
        type: 'started',
        promptTokens,
        cachedTokens,
        ...(promptTokenIds === null ? {} : { promptTokenIds }),
      });
    }
    const prefill = readPrefill(chunk.prompt_progress);
    if (prefill !== null) events.push(prefill);
    const from = events.length;
    for (const choice of choices) this.#readChoice(choice, events);
    const [only] = events.slice(from);
    if (events.length !== from + 1) return;
    if (only?.type === 'token' || only?.type === 'reasoning') this.#template.learn(data, only, usage);
  }

  #readChoice(choice: ReplicaChoice, events: EngineEvent[]): void {
    let reader = this.#choices.get(choice.index);
    if (reader === undefined) {
      reader = new ChoiceReader(choice.index, this.#offered);
      this.#choices.set(choice.index, reader);
    }
    reader.push(choice, this.#meter.completionTokens, events);
  }

  #finishStream(events: EngineEvent[]): void {
    if (this.#choices.size === 0) throw incompleteResponse('the stream ended without a choice');
    for (const { finished } of this.#choices.values()) {
      if (!finished) throw incompleteResponse('the stream ended before all choices were finished');
    }
    this.#ended = true;
    events.push({ type: 'end', ...this.#meter.total() });
  }
}

interface WireChunk {
  object?: unknown;
  choices?: unknown;
  usage?: unknown;
  error?: unknown;
  prompt_token_ids?: unknown;
  /** llama-server. `processed` includes `cache`. */
  prompt_progress?: unknown;
}

function readPrefill(value: unknown): PrefillEvent | null {
  const progress = jsonObject(value);
  const [promptTokens, doneTokens, cachedTokens, elapsedMs] = ['total', 'processed', 'cache', 'time_ms'].map(
    (field) => readCount(progress[field]),
  );
  if (promptTokens == null || doneTokens == null || cachedTokens == null || elapsedMs == null) return null;
  if (cachedTokens > doneTokens || doneTokens > promptTokens) return null;
  return { type: 'prefill', promptTokens, doneTokens, cachedTokens, elapsedMs };
}

/** vLLM sends the IDs in the first chunk of a chat, and in the first choice of a text completion. */
function readPromptTokenIds({ prompt_token_ids: ids, choices }: WireChunk): readonly number[] | null {
  return readTokenIds(ids ?? jsonObject(asList(choices)[0])['prompt_token_ids']);
}

/**
 * Converts the non-streaming response of a replica into events, with one `token` per choice. Estimates usage that the
 * replica does not report. `count`: the choices of the request. Throws the error in the body, or `engine_unavailable`.
 */
export function readResponse(
  kind: GenerationKind,
  body: string,
  meter = new UsageMeter(),
  count = Infinity,
): GenerationEvent[] {
  const response = { ...parseObject(body, 'the response') };
  writeArguments(response, body);
  return readPackedResponse(kind, { response, logprobs: [] }, meter, count);
}

/** Does the same as `readResponse` with a body that was parsed on another thread. */
export function readPackedResponse(
  kind: GenerationKind,
  { response, logprobs }: PackedResponse,
  meter: UsageMeter,
  count: number,
): GenerationEvent[] {
  const { error, choices: list, usage } = response;
  if (error !== undefined && error !== null) throw readErrorFrame(JSON.stringify({ error }));
  const choices = readChoices(kind, list, count);
  for (const [position, packed] of logprobs.entries()) {
    const choice = choices[position];
    if (choice !== undefined) choice.logprobs = packed;
  }
  if (choices.length === 0) throw invalidResponse(new Error('the response has no choices'));
  meter.record(estimateTokens(choices), readUsage(usage), null);
  const { promptTokens, cachedTokens, completionTokens } = meter;
  const events: GenerationEvent[] = [{ type: 'started', promptTokens, cachedTokens }];
  for (const choice of choices) {
    if (choice.reason === null) throw incompleteResponse('a choice has no finish_reason');
    new ChoiceReader(choice.index).push(choice, completionTokens, events);
  }
  events.push({ type: 'end', ...meter.total() });
  return events;
}

/** Approximate bytes per token of prose with common tokenizers. */
const BYTES_PER_TOKEN = 4;

function estimateTokens(choices: readonly ReplicaChoice[]): ReceivedTokens {
  let tokens = 0;
  let reasoningTokens = 0;
  for (const { text, reasoning, calls, logprobs } of choices) {
    let called = '';
    for (const call of calls) called += (call.name ?? '') + call.arguments;
    const ofReasoning = estimate(reasoning);
    tokens += logprobs?.length ?? estimate(reasoning + text + called);
    reasoningTokens += ofReasoning;
  }
  return { tokens, reasoningTokens };
}

function estimate(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);
}

/** One choice of a chunk or a response, in any dialect. */
export interface ReplicaChoice {
  index: number;
  text: string;
  /** Reasoning of a chat model, or ''. */
  reasoning: string;
  calls: readonly ReplicaCall[];
  logprobs: readonly TokenLogprob[] | PackedLogprobs | null;
  reason: FinishReason | null;
  /** The stop sequence that ended the choice, as vLLM and SGLang report it; null for other ends and servers. */
  stopSequence: string | null;
  /** IDs of the tokens of this part; null if the replica sends none. */
  tokenIds: readonly number[] | null;
}

/**
 * Reads the `choices` of a chunk or a response. `count`: the choices of the request. Throws `engine_unavailable`, also for
 * other choices.
 */
function readChoices(kind: GenerationKind, value: unknown, count: number): ReplicaChoice[] {
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
  /** vLLM: a stop sequence, or the ID of a token. */
  stop_reason?: unknown;
  /** The same of SGLang. */
  matched_stop?: unknown;
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
    stopSequence: asText(choice.stop_reason ?? choice.matched_stop) || null,
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
    case 'embedding':
    case 'rerank':
      return { text: asText(text), reasoning: '', calls: [] };
  }
}

/**
 * Joins the text of the content parts of one type. Mistral's reasoning models send content as an array of parts, and
 * a `thinking` part contains an array of text parts.
 */
function textOf(parts: unknown, type: 'text' | 'thinking'): string {
  if (!Array.isArray(parts)) return '';
  return parts
    .map(jsonObject)
    .filter((part) => part['type'] === type)
    .map((part) => asText(part[type]) + textOf(part[type], 'text'))
    .join('');
}

/**
 * Estimates the number of tokens in a chunk. If it has log probabilities, each is one token. Otherwise each text,
 * reasoning text and part of a tool call counts as one token.
 */
function countTokens(choices: readonly ReplicaChoice[]): ReceivedTokens {
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
  readonly #text = new WellFormedText();
  readonly #reasoning = new WellFormedText();
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
  push(part: ReplicaChoice, completionTokens: number, events: EngineEvent[]): void {
    if (this.#finished) return;
    const from = events.length;
    this.#pushText(part, completionTokens, events);
    for (const call of part.calls) this.#calls.push(call, completionTokens, events);
    if (part.tokenIds !== null)
      this.#addTokenIds(part.tokenIds, events.length > from ? events.at(-1) : undefined);
    if (part.reason === null) return;
    this.#finished = true;
    this.#calls.end(completionTokens, events, isCutOff(part.reason));
    const reason = this.#reasonOf(part.reason);
    const stopSequence = reason === 'stop' ? part.stopSequence : null;
    events.push({ type: 'finish', choice: this.#choice, reason, stopSequence });
  }

  /** Adds the pending `#tokenIds` to this event, before its own ID. The event is a single token. */
  addPendingIds(event: TextEvent): void {
    if (event.tokenIds !== undefined) this.#addTokenIds(event.tokenIds, event);
  }

  /**
   * Adds an ID to the last event of its part. Keeps it for a later event if `last` cannot have IDs, as well as the IDs of
   * several tokens: the part may lack the text of the last ones, because they are the start of a character.
   */
  #addTokenIds(ids: readonly number[], last: EngineEvent | undefined): void {
    for (const id of ids) this.#tokenIds.push(id);
    if (last === undefined || !('completionTokens' in last)) return;
    if (ids.length !== 1) return;
    last.tokenIds = this.#tokenIds;
    this.#tokenIds = [];
  }

  /** Adds reasoning, then text. Log probabilities go with the text if there is any; those of calls are dropped. */
  #pushText(part: ReplicaChoice, completionTokens: number, events: EngineEvent[]): void {
    const { logprobs } = part;
    const text = this.#text.add(part.text, part.reason !== null);
    const reasoning = this.#reasoning.add(part.reasoning, part.reason !== null);
    const withText = text !== '' || (reasoning === '' && part.calls.length === 0);
    if (reasoning !== '')
      this.#pushPart('reasoning', reasoning, completionTokens, withText ? null : logprobs, events);
    if (text !== '' || (logprobs !== null && withText))
      this.#pushPart('token', text, completionTokens, logprobs, events);
  }

  #pushPart(
    type: TextEvent['type'],
    text: string,
    completionTokens: number,
    logprobs: ReplicaChoice['logprobs'],
    events: EngineEvent[],
  ): void {
    const choice = this.#choice;
    if (logprobs === null || !('parts' in logprobs)) {
      events.push({ type, choice, text, completionTokens, logprobs });
      return;
    }
    events.push({ type, choice, text, completionTokens, logprobs: null });
    for (const event of unpackLogprobs(logprobs, { type, choice, completionTokens })) events.push(event);
  }

  /**
   * Reports `tool_calls` after any call: some servers report `stop`, but clients run functions only for `tool_calls`.
   */
  #reasonOf(reason: FinishReason): FinishReason {
    if (isCutOff(reason)) return reason;
    return this.#calls.count > 0 ? 'tool_calls' : 'stop';
  }
}
