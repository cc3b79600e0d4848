import {
  totalChoices,
  type FinishReason,
  type GenerationRequest,
  type Tool,
  type ToolChoice,
  promptTexts,
  tokenInputs,
  type EmbeddingInput,
  type JsonSchema,
  type Logprob,
  type TokenLogprob,
} from '../../../src/core/generation.ts';
import { createToolCallId } from '../../../src/core/tool-call-id.ts';
import { SequenceMatcher } from '../../../src/engine/llama/tool-calls/sequence-matcher.ts';
import type { Directive, ScriptedCall } from './directive.ts';
import type { ScriptedOptions } from './options.ts';

/** One token of a completion. The start of a call is one token. */
export type PlannedToken =
  | { type: 'token' | 'reasoning'; text: string }
  | { type: 'tool-call'; call: number; id: string; name: string }
  | { type: 'tool-arguments'; call: number; text: string };

/** Returns the ID of a token. It depends on the text, so that tokens of another text cannot be continued. */
export function tokenId(token: PlannedToken): number {
  return hash(token.type === 'tool-call' ? token.name : token.text) >>> 8;
}

/** The planned output of one choice. */
export interface Completion {
  choice: number;
  tokens: readonly PlannedToken[];
  reason: FinishReason;
  stopSequence: string | null;
}

/**
 * Returns the completions of a request, at most `availableTokens` long: reasoning, then text, then calls. Text is cut
 * at the first stop sequence, and calls after it are omitted.
 */
export function planCompletions(
  request: GenerationRequest,
  directive: Directive,
  options: ScriptedOptions,
  availableTokens: number,
): Completion[] {
  const limit = Math.min(request.maxTokens ?? Infinity, availableTokens);
  const reasoning = splitTokens(directive.reasoning ?? '').map((text): PlannedToken => ({
    type: 'reasoning',
    text,
  }));
  const calls = callsOf(request, directive);
  return Array.from({ length: totalChoices(request) }, (_, choice) => {
    const textLimit = Math.max(0, limit - reasoning.length);
    // One token more than the limit shows whether the text would continue.
    const uncut =
      calls.length > 0 && directive.text === undefined
        ? []
        : uncutTokens(request, directive, options, choice, textLimit + 1);
    const stopped = cutAtStop(uncut.slice(0, textLimit), request.stop);
    const text = (stopped?.tokens ?? uncut).map((token): PlannedToken => ({ type: 'token', text: token }));
    const tokens = [...reasoning, ...text, ...(stopped ? [] : calls.flatMap(callTokens))];
    const stopSequence = stopped?.sequence ?? null;
    if (tokens.length > limit) {
      return { choice, tokens: tokens.slice(0, limit), reason: 'length', stopSequence };
    }
    return { choice, tokens, reason: calls.length > 0 && !stopped ? 'tool_calls' : 'stop', stopSequence };
  });
}

/** Returns the calls of the directive, or an example of the call that the request requires. */
function callsOf(request: GenerationRequest, directive: Directive): readonly ScriptedCall[] {
  switch (request.kind) {
    case 'chat': {
      if (directive.calls !== undefined) {
        return request.parallelToolCalls ? directive.calls : directive.calls.slice(0, 1);
      }
      const tool = directive.text === undefined ? requiredTool(request.tools, request.toolChoice) : undefined;
      if (tool === undefined) return [];
      return [{ name: tool.name, arguments: exampleOf(tool.parameters) }];
    }
    case 'text':
    case 'embedding':
    case 'rerank':
      return [];
  }
}

function requiredTool(tools: readonly Tool[], choice: ToolChoice): Tool | undefined {
  switch (choice.type) {
    case 'auto':
    case 'none':
      return undefined;
    case 'required':
      return tools[0];
    case 'function':
      return tools.find(({ name }) => name === choice.name);
    case 'allowed':
      return choice.mode === 'required' ? tools.find(({ name }) => choice.names.includes(name)) : undefined;
  }
}

/** Splits a call into its start and pieces of its arguments with four characters each. */
function callTokens({ name, arguments: value }: ScriptedCall, call: number): PlannedToken[] {
  const parts = JSON.stringify(value).match(/.{1,4}/gsu) ?? [];
  return [
    { type: 'tool-call', call, id: createToolCallId(), name },
    ...parts.map((text): PlannedToken => ({ type: 'tool-arguments', call, text })),
  ];
}

function uncutTokens(
  request: GenerationRequest,
  directive: Directive,
  options: ScriptedOptions,
  choice: number,
  maxTokens: number,
): string[] {
  if (directive.text !== undefined) return splitTokens(directive.text);
  const format = request.responseFormat;
  if (format.type === 'json_object') return splitTokens('{}');
  if (format.type === 'json_schema') return splitTokens(JSON.stringify(exampleOf(format.schema)));
  return randomTokens(textSeed(request, choice), Math.min(directive.tokens ?? options.tokens, maxTokens));
}

/** Returns the tokens before the first stop sequence, and this sequence. Null if there is none in the text. */
function cutAtStop(
  tokens: readonly string[],
  stop: readonly string[],
): { tokens: string[]; sequence: string } | null {
  if (stop.length === 0) return null;
  const { text, match } = new SequenceMatcher(stop).push(tokens.join(''));
  return match === null ? null : { tokens: splitTokens(text), sequence: match };
}

/** The vocabulary. Some words have multi-byte characters, so that tests catch split characters. */
const WORDS = (
  'river stone light window garden paper silver morning naïve engine slow water letter island café north ' +
  'quiet bridge winter candle field 東京 signal harbour copper thread summer orbit größer lantern valley 🙂'
).split(' ');

/** The words with a leading space, for every token but the first. Precomputed, because tests generate millions of tokens. */
const SPACED_WORDS = WORDS.map((word) => ` ${word}`);

/** Returns `count` pseudorandom tokens, always the same for a seed. */
function randomTokens(seed: number, count: number): string[] {
  let state = seed;
  return Array.from({ length: count }, (_, index) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    // The upper five bits select one of 32 words.
    return (index === 0 ? WORDS : SPACED_WORDS)[state >>> 27] as string;
  });
}

function splitTokens(text: string): string[] {
  return text.match(/\s*\S{1,12}|\s+/gu) ?? [];
}

/** Counts the tokens of each prompt. A token has about four characters, and a chat is one prompt. */
export function countPromptTokens(request: GenerationRequest): number[] {
  const counts = promptTexts(request).map(countTokens);
  switch (request.kind) {
    case 'chat':
      return [counts.reduce((sum, count) => sum + count, 0)];
    case 'text':
      return counts;
    case 'embedding':
      return [...counts, ...tokenInputs(request).map((tokens) => tokens.length)];
    case 'rerank': {
      const [query = 0, ...documents] = counts;
      return documents.map((document) => query + document);
    }
  }
}

function countTokens(text: string): number {
  return Math.max(1, Math.ceil(text.length / 4));
}

/** Hashes the inputs that determine the text: prompt, seed and choice. */
function textSeed(request: GenerationRequest, choice: number): number {
  const seed = request.sampling.temperature === 0 ? null : request.sampling.seed;
  return hash(JSON.stringify([inputOf(request), seed, choice]));
}

function inputOf(request: GenerationRequest): unknown {
  switch (request.kind) {
    case 'chat':
      return request.messages;
    case 'text':
      return request.prompts;
    case 'embedding':
      return request.inputs;
    case 'rerank':
      return request.documents;
  }
}

/** Returns the share of the words of the query that are in the document. */
export function wordShare(query: string, document: string): number {
  const words = query.toLowerCase().split(/\W+/);
  const found = new Set(document.toLowerCase().split(/\W+/));
  return words.filter((word) => found.has(word)).length / words.length;
}

/** Returns a made-up vector with the length 1, always the same for an input. */
export function fakeVector(input: EmbeddingInput, dimensions: number): Float32Array {
  // Sines of large numbers take ten times as long.
  const seed = hash(JSON.stringify(input)) % 65_536;
  const vector = new Float32Array(dimensions);
  for (let index = 0; index < dimensions; index++)
    vector[index] = Math.sin(seed + ((index * index) % 65_521));
  const length = Math.sqrt(vector.reduce((sum, number) => sum + number * number, 0));
  return vector.map((number) => number / length);
}

/** Returns made-up log probabilities in descending order, always the same for a token. */
export function fakeLogprobs(text: string, top: number): TokenLogprob[] {
  const chosen = { ...tokenLogprob(text, 0), top: [] };
  const others = Array.from({ length: top }, (_, rank) =>
    tokenLogprob(rank === 0 ? text : (WORDS[(hash(text) + rank) % WORDS.length] as string), rank),
  );
  return [{ ...chosen, top: others }];
}

/** Returns a minimal JSON value for a schema with basic keywords. */
function exampleOf(schema: JsonSchema): unknown {
  if (typeof schema === 'boolean') return {};
  if ('const' in schema) return schema['const'];
  if (Array.isArray(schema['enum'])) return schema['enum'][0];
  const type: unknown = Array.isArray(schema['type']) ? schema['type'][0] : schema['type'];
  switch (type) {
    case 'string':
      return '';
    case 'number':
    case 'integer':
      return schema['minimum'] ?? 0;
    case 'boolean':
      return false;
    case 'null':
      return null;
    case 'array':
      return [];
    default:
      return exampleObject(schema);
  }
}

function exampleObject(schema: { readonly [keyword: string]: unknown }): Record<string, unknown> {
  const required = Array.isArray(schema['required']) ? schema['required'].map(String) : [];
  // `json/json-schema.ts` has validated the schema.
  const properties = (schema['properties'] ?? {}) as Record<string, JsonSchema>;
  return Object.fromEntries(required.map((name) => [name, exampleOf(properties[name] ?? true)]));
}

function tokenLogprob(token: string, rank: number): Logprob {
  const logprob = -((hash(token) % 100) / 1000) - rank * 0.5;
  return { token, logprob, bytes: [...Buffer.from(token)] };
}

/** FNV-1a, 32 bits. */
export function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  }
  return value >>> 0;
}
