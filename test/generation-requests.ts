import type { Sampling } from '../src/generation.ts';

/** The defaults of requests. */
export const NEUTRAL: Sampling = {
  temperature: 1,
  topP: 1,
  topK: null,
  minP: 0,
  seed: null,
  presencePenalty: 0,
  frequencyPenalty: 0,
  repetitionPenalty: 1,
  logitBias: new Map(),
  explicit: new Set(),
};

export const GREEDY: Sampling = { ...NEUTRAL, temperature: 0 };

/** A streaming request with default values, without its model, prompt and sampling. */
export const STREAMED = {
  maxTokens: null,
  stop: [],
  choices: 1,
  logprobs: null,
  responseFormat: { type: 'text' },
  stream: true,
  includeUsage: null,
  tokenIds: false,
  continuation: null,
  cacheScope: null,
  user: null,
} as const;

/** The fields of a chat without tools. */
export const NO_TOOLS = {
  tools: [],
  toolChoice: { type: 'auto' },
  parallelToolCalls: true,
  reasoningEffort: null,
  templateVariables: {},
} as const;
