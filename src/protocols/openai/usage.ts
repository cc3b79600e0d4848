import type { Usage, CompletionKind } from '../../core/generation.ts';

/**
 * Formats `usage` as JSON, with the fields in OpenAI's order. OpenAI reports reasoning tokens for every chat, even if
 * there are none.
 */
export function usageJson(kind: CompletionKind, usage: Usage): string {
  const { promptTokens, completionTokens, cachedTokens, reasoningTokens } = usage;
  return (
    `{"prompt_tokens":${promptTokens},"completion_tokens":${completionTokens},` +
    `"total_tokens":${promptTokens + completionTokens},"prompt_tokens_details":{"cached_tokens":${cachedTokens}}` +
    `${completionDetails(kind, reasoningTokens)}}`
  );
}

function completionDetails(kind: CompletionKind, reasoningTokens: number): string {
  switch (kind) {
    case 'chat':
      return `,"completion_tokens_details":{"reasoning_tokens":${reasoningTokens}}`;
    case 'text':
      return '';
  }
}
