import { costOf } from '../accounts/ledger/cost.ts';
import { promptTexts, type GenerationRequest, type Message, type Usage } from '../generation.ts';
import type { ConfiguredModel } from '../routing/served-model.ts';

/** The maximum that a request can use. */
export interface WorstCase {
  promptTokens: number;
  completionTokens: number;
  /**
   * Prompt and completion tokens together. Can be less than the sum of both maximums, because they share the context.
   */
  tokens: number;
  /** Pico-dollars. */
  pico: bigint;
}

/** Tokens that a template may add per message and per tool call. */
const TOKENS_PER_MESSAGE = 24;
const TOKENS_PER_CALL = 64;

/** Tokens that a template may add per system message: that of Apriel repeats its own instructions. */
const TOKENS_PER_SYSTEM_MESSAGE = 64;

/** Tokens that a template may add per member of a JSON object that it writes as XML, with indentation or in code. */
const TOKENS_PER_MEMBER = 8;

/** Tokens that a template may add per argument of a call that it writes as XML: that of DeepSeek V3.2 repeats long tags. */
const TOKENS_PER_ARGUMENT = 16;

/** Tokens that a template may add per chat, because some have a long system prompt or long instructions for tools. */
const TOKENS_PER_CHAT = 2048;

/**
 * Context length assumed for a model that has not reported its own yet. Requests to such a model usually fail anyway.
 */
const UNKNOWN_CONTEXT = 131_072;

/**
 * Computes the maximum without tokenizing the prompt. A token has at least one byte, prompt and completion share the
 * context, and a completion is at most as long as requested and as the model allows. The prices determine whether a
 * longer prompt or a longer completion costs more.
 */
export function worstCase(request: GenerationRequest, model: ConfiguredModel): WorstCase {
  const card = model.card();
  const context = card?.context_length ?? UNKNOWN_CONTEXT;
  const longest = Math.min(request.maxTokens ?? Infinity, card?.max_completion_tokens ?? context, context);
  const { choices } = request;
  const all: WorstCase = { promptTokens: 0, completionTokens: 0, tokens: 0, pico: 0n };
  for (const tokens of maxPromptTokens(request)) {
    const one = maximumOf(tokens, choices, longest, context, model);
    all.promptTokens += one.promptTokens;
    all.completionTokens += one.completionTokens;
    all.tokens += one.tokens;
    all.pico += one.pico;
  }
  return all;
}

/** Limits usage to the worst case. Returns null if the usage does not exceed it. */
export function clampUsage(usage: Usage, worst: WorstCase, price: ConfiguredModel['price']): Usage | null {
  const promptTokens = Math.min(usage.promptTokens, worst.promptTokens);
  let completionTokens = Math.min(
    usage.completionTokens,
    worst.completionTokens,
    worst.tokens - promptTokens,
  );
  const left = worst.pico - costOf({ promptTokens, completionTokens: 0 }, price);
  if (price.completion > 0) {
    completionTokens = Math.min(completionTokens, Number(left / BigInt(price.completion)));
  }
  if (promptTokens === usage.promptTokens && completionTokens === usage.completionTokens) return null;
  return {
    promptTokens,
    completionTokens,
    cachedTokens: Math.min(usage.cachedTokens, promptTokens),
    reasoningTokens: Math.min(usage.reasoningTokens, completionTokens),
  };
}

/**
 * Returns the maximum of two cases: the longest prompt with the completion that still fits into the context, and the
 * longest completion with the prompt that still fits.
 */
function maximumOf(
  prompt: number,
  choices: number,
  longest: number,
  context: number,
  { price }: ConfiguredModel,
): WorstCase {
  const promptTokens = Math.min(prompt, context);
  const short = usageOf(promptTokens, Math.min(longest, context - promptTokens) * choices, price);
  const long = usageOf(Math.min(promptTokens, context - longest), longest * choices, price);
  return {
    promptTokens,
    completionTokens: longest * choices,
    tokens: Math.max(short.tokens, long.tokens),
    pico: short.pico > long.pico ? short.pico : long.pico,
  };
}

function usageOf(promptTokens: number, completionTokens: number, price: ConfiguredModel['price']) {
  return {
    tokens: promptTokens + completionTokens,
    pico: costOf({ promptTokens, completionTokens }, price),
  };
}

/** Returns the maximum tokens of each prompt. */
function maxPromptTokens(request: GenerationRequest): readonly number[] {
  const texts = promptTexts(request).map((text) => Buffer.byteLength(text) + TOKENS_PER_MESSAGE);
  switch (request.kind) {
    case 'chat': {
      const { messages, tools, templateVariables, responseFormat } = request;
      // Servers put the schema of a response format into the prompts of some models.
      const schema = responseFormat.type === 'json_schema' ? responseFormat.schema : null;
      const objects = [...tools.map(({ parameters }) => parameters), templateVariables, schema];
      const parts = [
        ...texts,
        ...messages.map(addedTokens),
        ...objects.map((object) => TOKENS_PER_MEMBER * membersOf(object)),
        schema === null ? 0 : Buffer.byteLength(JSON.stringify(schema)),
      ];
      return [parts.reduce((sum, tokens) => sum + tokens, TOKENS_PER_CHAT)];
    }
    case 'text':
      return texts;
  }
}

/**
 * Returns the maximum tokens that templates add for a system message, for a call with its ID and arguments, and for the
 * escapes if they write results and arguments as JSON strings.
 */
function addedTokens(message: Message): number {
  switch (message.role) {
    case 'system':
      return TOKENS_PER_SYSTEM_MESSAGE;
    case 'user':
      return 0;
    case 'tool':
      return Buffer.byteLength(message.toolCallId) + escapeBytes(message.content);
    case 'assistant':
      return message.toolCalls.reduce((sum, { id, arguments: text }) => {
        const names = text.match(NAME_END)?.length ?? 0;
        const added = TOKENS_PER_CALL + TOKENS_PER_ARGUMENT * names;
        return sum + Buffer.byteLength(id) + escapeBytes(text) + added;
      }, 0);
  }
}

/** Matches the end of each name in JSON. In a string, the quotation mark would be escaped. */
const NAME_END = /(?<!\\)"\s*:/g;

/** Returns how many bytes longer a text is as a JSON string. */
function escapeBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - Buffer.byteLength(text);
}

/** Returns the number of members and elements of a JSON value, including nested ones, or a few more. */
function membersOf(value: unknown): number {
  return JSON.stringify(value).match(/[,:]/g)?.length ?? 0;
}
