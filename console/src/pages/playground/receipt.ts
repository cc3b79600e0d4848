import { call } from '../../api/client.ts';
import type { Answer } from './answer.ts';

/** Delay before each attempt, in milliseconds. Requests are settled shortly after they end. */
const RETRY_DELAYS_MS = [200, 1000, 3000];

/**
 * Adds usage and cost from the receipt to a response that was stopped or interrupted and therefore lacks them. Returns
 * the response unchanged if there is nothing to add. Never rejects.
 */
export async function withReceipt(answer: Answer): Promise<Answer> {
  const { requestId: id } = answer;
  if (id === null || (answer.usage !== null && answer.cost !== null)) return answer;
  for (const ms of RETRY_DELAYS_MS) {
    await new Promise((resolve) => setTimeout(resolve, ms));
    try {
      const { request } = await call('getReceipt', { params: { id } });
      if (request.state === 'open') continue;
      const usage = {
        promptTokens: request.prompt_tokens,
        completionTokens: request.completion_tokens,
        reasoningTokens: request.reasoning_tokens,
        cachedTokens: request.cached_tokens,
      };
      return { ...answer, usage, cost: request.cost_usd };
    } catch {
      return answer;
    }
  }
  return answer;
}
