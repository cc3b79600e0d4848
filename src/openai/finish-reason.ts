import type { FinishReason } from '../generation.ts';
import { incompleteResponse } from './invalid-response.ts';

/**
 * Converts the `finish_reason` of a replica in any dialect. Unknown reasons become `stop`: the response is complete, and
 * clients expect the reasons of OpenAI. Returns null before the end of a choice, where TGI sends ''. Throws
 * `engine_unavailable` if the server failed during the response.
 */
export function readFinishReason(value: unknown): FinishReason | null {
  if (typeof value !== 'string' || value === '') return null;
  switch (value.toLowerCase()) {
    case 'length':
    case 'max_tokens': // Anthropic, Gemini.
    case 'model_length': // Mistral.
    case 'model_context_window_exceeded': // Anthropic, Z.ai.
      return 'length';
    case 'tool_calls':
    case 'function_call': // The older name in OpenAI's API.
    case 'tool_use': // Anthropic.
      return 'tool_calls';
    case 'content_filter':
    case 'refusal': // Anthropic.
    case 'sensitive': // Z.ai.
    // Gemini.
    case 'safety':
    case 'recitation':
    case 'blocklist':
    case 'prohibited_content':
    case 'spii':
      return 'content_filter';
    case 'abort': // vLLM, SGLang.
    case 'error':
    case 'network_error': // Z.ai.
    case 'insufficient_system_resource': // DeepSeek.
      throw incompleteResponse(`finish_reason was ${value}`);
    default: // Such as stop, end_turn, eos_token or stop_sequence.
      return 'stop';
  }
}
