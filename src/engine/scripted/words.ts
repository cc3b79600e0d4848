import {
  promptTexts,
  type GenerationRequest,
  type JsonSchema,
  type Logprob,
  type TokenLogprob,
} from '../../generation.ts';

/** The vocabulary. Some words have multi-byte characters, so that tests catch split characters. */
const WORDS = (
  'river stone light window garden paper silver morning naïve engine slow water letter island café north ' +
  'quiet bridge winter candle field 東京 signal harbour copper thread summer orbit größer lantern valley 🙂'
).split(' ');

/** The words with a leading space, for every token but the first. Precomputed, because tests generate millions of tokens. */
const SPACED_WORDS = WORDS.map((word) => ` ${word}`);

/** Returns `count` pseudorandom tokens, always the same for a seed. */
export function randomTokens(seed: number, count: number): string[] {
  let state = seed;
  return Array.from({ length: count }, (_, index) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    // The upper five bits select one of 32 words.
    return (index === 0 ? WORDS : SPACED_WORDS)[state >>> 27] as string;
  });
}

export function splitTokens(text: string): string[] {
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
  }
}

function countTokens(text: string): number {
  return Math.max(1, Math.ceil(text.length / 4));
}

/** Hashes the inputs that determine the text: prompt, seed and choice. */
export function textSeed(request: GenerationRequest, choice: number): number {
  const seed = request.sampling.temperature === 0 ? null : request.sampling.seed;
  return hash(JSON.stringify([inputOf(request), seed, choice]));
}

function inputOf(request: GenerationRequest): unknown {
  switch (request.kind) {
    case 'chat':
      return request.messages;
    case 'text':
      return request.prompts;
  }
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
export function exampleOf(schema: JsonSchema): unknown {
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
      return exampleObject(schema);
  }
}

function exampleObject(schema: { readonly [keyword: string]: unknown }): Record<string, unknown> {
  const required = Array.isArray(schema['required']) ? schema['required'].map(String) : [];
  // `openai/json-schema.ts` has validated the schema.
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
