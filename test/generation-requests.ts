import { DEFAULT_SAMPLING, type Sampling } from '../src/core/sampling.ts';

/** The defaults of requests. */
export const NEUTRAL: Sampling = DEFAULT_SAMPLING;

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
  reasoningBudget: null,
  templateVariables: {},
} as const;
