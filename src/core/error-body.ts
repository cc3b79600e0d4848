import type { ServiceError } from './errors.ts';

/** Formats the body of an error response: `{"error":{message,type,param,code}}`. All four fields are always present. */
export function errorBody(error: ServiceError): string {
  return `{"error":${errorJson(error)}}`;
}

/** Formats the `error` object. */
export function errorJson(error: ServiceError): string {
  const { message, type, param, code } = error;
  return JSON.stringify({ message, type, param, code });
}

/**
 * Reads the number of prompt tokens from the error of a replica that refused `max_tokens` as too large for the
 * context. If `exact` is false, the number is a lower bound. Null: the message has no number.
 */
export function readPromptTokens(error: ServiceError): { tokens: number; exact: boolean } | null {
  for (const pattern of PROMPT_TOKENS) {
    const groups = pattern.exec(error.message)?.groups;
    if (groups) return { tokens: Number(groups['tokens']), exact: groups['least'] === undefined };
  }
  return null;
}

/** In this order: messages of vLLM up to 0.9 and OpenAI, of vLLM since 0.10, of SGLang, and of TGI. */
const PROMPT_TOKENS = [
  /\((?<tokens>\d{1,9}) in (?:the messages|the prompt|your prompt)[,;]/,
  /\b(?:your request has|your prompt contains) (?<least>at least )?(?<tokens>\d{1,9}) input tokens/,
  /: (?<tokens>\d{1,9}) tokens from the input messages/,
  /Given: (?<tokens>\d{1,9}) `inputs` tokens/,
];
