import {
  imageTokens,
  promptTexts,
  toolTexts,
  type ChatRequest,
  type GenerationRequest,
  type Message,
} from './generation.ts';

/**
 * Returns an upper bound on the tokens of each prompt, without tokenizing it: a token has at least one byte, and templates
 * add to the texts of a chat. A chat that may fill `context` tokens is not counted to its end.
 */
export function promptTokenBounds(request: GenerationRequest, context = Infinity): readonly number[] {
  switch (request.kind) {
    case 'chat':
      return [chatTokens(request, context)];
    case 'text':
      return promptTexts(request).map(textTokens);
    case 'embedding':
      return request.inputs.map((input) => (typeof input === 'string' ? textTokens(input) : input.length));
    case 'rerank': {
      const query = TOKENS_PER_RERANK + textTokens(request.query);
      return request.documents.map((document) => query + textTokens(document));
    }
  }
}

/** Tokens that a template may add per pair of query and document: that of Qwen3-Reranker has instructions. */
const TOKENS_PER_RERANK = 128;

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
export const TOKENS_PER_CHAT = 2048;

const textTokens = (text: string): number => Buffer.byteLength(text) + TOKENS_PER_MESSAGE;

/** Returns the maximum tokens of the texts, and of what templates add to them. Stops counting at `context`. */
function chatTokens(request: ChatRequest, context: number): number {
  const { messages, tools, templateVariables, responseFormat } = request;
  let sum = TOKENS_PER_CHAT + imageTokens(request);
  for (const text of promptTexts(request)) {
    sum += textTokens(text);
    if (sum >= context) return sum;
  }
  for (const message of messages) {
    sum += addedToMessage(message);
    if (sum >= context) return sum;
  }
  for (const { parameters } of tools) sum += TOKENS_PER_MEMBER * membersOf(parameters);
  for (const text of toolTexts(tools)) sum += unicodeEscapeBytes(text);
  if (Object.keys(templateVariables).length > 0) sum += TOKENS_PER_MEMBER * membersOf(templateVariables);
  if (responseFormat.type !== 'json_schema') return sum;
  // Servers put the schema of a response format into the prompts of some models.
  const { schema } = responseFormat;
  return sum + Buffer.byteLength(JSON.stringify(schema)) + TOKENS_PER_MEMBER * membersOf(schema);
}

/**
 * Returns the maximum tokens that templates add for a system message, for calls with their IDs and arguments, and for the
 * escapes if they write results and arguments as JSON strings.
 */
function addedToMessage(message: Message): number {
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
        const added = Buffer.byteLength(id) + escapeBytes(text) + TOKENS_PER_CALL;
        return sum + added + TOKENS_PER_ARGUMENT * names;
      }, 0);
  }
}

/** Matches the end of each name in JSON. In a string, the quotation mark would be escaped. */
const NAME_END = /(?<!\\)"\s*:/g;

/** Returns how many bytes longer a text is as a JSON string. */
function escapeBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - Buffer.byteLength(text);
}

/** Returns how many bytes longer a text is if JSON escapes all characters outside ASCII, as the template of Reka does with tools. */
function unicodeEscapeBytes(text: string): number {
  let units = 0;
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) >= 0x7f) units++;
  // An escape has six bytes, and the other characters have one.
  return 6 * units + text.length - units - Buffer.byteLength(text);
}

/** Returns the number of members and elements of a JSON value, including nested ones, or a few more. */
function membersOf(value: unknown): number {
  return JSON.stringify(value).match(/[,:]/g)?.length ?? 0;
}
