import { call } from '../../api/client.ts';
import type { Answer } from './answer.ts';

/** How long to wait before each look, in milliseconds: a request is settled within a moment of its end. */
const LOOKS_MS = [200, 1000, 3000];

/**
 * The answer with what the service counted for it, where the answer itself did not tell: it was stopped, or broke
 * off. As it is where there is nothing to add. Never rejects: the receipt stays to be looked at.
 */
export async function withReceipt(answer: Answer): Promise<Answer> {
  const { requestId: id } = answer;
  if (id === null || (answer.usage !== null && answer.cost !== null)) return answer;
  for (const ms of LOOKS_MS) {
    await new Promise((resolve) => setTimeout(resolve, ms));
    try {
      const { request } = await call('getReceipt', { params: { id } });
      if (request.state === 'open') continue;
      const { prompt_tokens: promptTokens, cached_tokens: cachedTokens } = request;
      const usage = { promptTokens, completionTokens: request.completion_tokens, cachedTokens };
      return { ...answer, usage, cost: request.cost_usd };
    } catch {
      return answer;
    }
  }
  return answer;
}
