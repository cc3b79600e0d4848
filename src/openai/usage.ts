import type { Usage, GenerationKind } from '../generation.ts';

/**
 * Formats `usage` as JSON, with the fields in OpenAI's order. OpenAI reports reasoning tokens for every chat, even if
 * there are none.
 */
export function usageJson(kind: GenerationKind, usage: Usage): string {
  const { promptTokens, completionTokens, cachedTokens, reasoningTokens } = usage;
  return (
    `{"prompt_tokens":${promptTokens},"completion_tokens":${completionTokens},` +
    `"total_tokens":${promptTokens + completionTokens},"prompt_tokens_details":{"cached_tokens":${cachedTokens}}` +
    `${completionDetails(kind, reasoningTokens)}}`
  );
}

function completionDetails(kind: GenerationKind, reasoningTokens: number): string {
  switch (kind) {
    case 'chat':
      return `,"completion_tokens_details":{"reasoning_tokens":${reasoningTokens}}`;
    case 'text':
      return '';
  }
}

/** Reads a `usage` object of any dialect. Returns null unless it has prompt and completion tokens. */
export function readUsage(value: unknown): Usage | null {
  if (typeof value !== 'object' || value === null) return null;
  const usage = value as WireUsage; // Each field is checked below.
  const promptTokens = readCount(usage.prompt_tokens);
  const completionTokens = readCount(usage.completion_tokens);
  if (promptTokens === null || completionTokens === null) return null;
  return {
    promptTokens,
    completionTokens,
    cachedTokens: readCount(usage.prompt_tokens_details?.cached_tokens) ?? 0,
    reasoningTokens:
      readCount(usage.completion_tokens_details?.reasoning_tokens) ?? readCount(usage.reasoning_tokens) ?? 0,
  };
}

interface WireUsage {
  prompt_tokens?: unknown;
  completion_tokens?: unknown;
  prompt_tokens_details?: { cached_tokens?: unknown } | null;
  completion_tokens_details?: { reasoning_tokens?: unknown } | null;
  /** The name in SGLang. */
  reasoning_tokens?: unknown;
}

/** Returns a whole number, or null for any other value. */
export function readCount(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}
