import type { GenerationRequest, JsonSchema, TokenLogprob } from '../../generation.ts';

/** The vocabulary. A few words have more than one byte a character, so that splitting them would show. */
const WORDS = (
  'river stone light window garden paper silver morning naïve engine slow water letter island café north ' +
  'quiet bridge winter candle field 東京 signal harbour copper thread summer orbit größer lantern valley 🙂'
).split(' ');

/** The same words as they stand behind another, made once: tokens are handed out by the million. */
const SPACED = WORDS.map((word) => ` ${word}`);

/** So many tokens of a text: the same seed gives the same tokens. */
export function wordsOf(seed: number, count: number): string[] {
  let state = seed;
  return Array.from({ length: count }, (_, index) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    // Five bits: the list has 32 words.
    return (index === 0 ? WORDS : SPACED)[state >>> 27] as string;
  });
}

/** Splits a text into tokens that joined give it again. */
export function tokensOf(text: string): string[] {
  return text.match(/\s*\S{1,12}|\s+/gu) ?? [];
}

/** Tokens of each prompt (a conversation is one): some four characters each, as with real tokenizers. */
export function countPromptTokens(request: GenerationRequest): number[] {
  if (request.kind === 'text') return request.prompts.map(countTokens);
  return [request.messages.reduce((sum, { content }) => sum + countTokens(content), 0)];
}

function countTokens(text: string): number {
  return Math.max(1, Math.ceil(text.length / 4));
}

/** A number for what decides the text of a request: its prompt, its seed, and the choice. */
export function seedOf(request: GenerationRequest, choice: number): number {
  const prompt = request.kind === 'text' ? request.prompts : request.messages;
  const seed = request.sampling.temperature === 0 ? null : request.sampling.seed;
  return hash(JSON.stringify([prompt, seed, choice]));
}

/** Made up, but the same for the same token: natural logarithms that fall from the chosen one on. */
export function logprobsOf(text: string, top: number): TokenLogprob[] {
  const chosen = { ...tokenLogprob(text, 0), top: [] };
  const others = Array.from({ length: top }, (_, rank) =>
    // The list is not empty and the index is taken modulo its length.
    tokenLogprob(rank === 0 ? text : (WORDS[(hash(text) + rank) % WORDS.length] as string), rank),
  );
  return [{ ...chosen, top: others }];
}

/** The least JSON value that fits a schema of the plain keywords: what the scripted engine says for one. */
export function sampleOf(schema: JsonSchema): unknown {
  if (typeof schema === 'boolean') return {};
  if ('const' in schema) return schema['const'];
  if (Array.isArray(schema['enum'])) return schema['enum'][0];
  const type: unknown = Array.isArray(schema['type']) ? schema['type'][0] : schema['type'];
  switch (type) {
    case 'string':
      return '';
    case 'number':
    case 'integer':
      return typeof schema['minimum'] === 'number' ? schema['minimum'] : 0;
    case 'boolean':
      return false;
    case 'null':
      return null;
    case 'array':
      return [];
    default:
      return sampleObject(schema);
  }
}

function sampleObject(schema: { readonly [keyword: string]: unknown }): Record<string, unknown> {
  const required = Array.isArray(schema['required']) ? schema['required'].map(String) : [];
  // The codec has checked the schema: properties is an object of schemas, where it is there.
  const properties = (schema['properties'] ?? {}) as Record<string, JsonSchema>;
  return Object.fromEntries(required.map((name) => [name, sampleOf(properties[name] ?? true)]));
}

function tokenLogprob(token: string, rank: number): { token: string; logprob: number; bytes: number[] } {
  const logprob = -((hash(token) % 100) / 1000) - rank * 0.5;
  return { token, logprob, bytes: [...Buffer.from(token)] };
}

/** FNV-1a, 32 bits. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  }
  return value >>> 0;
}
