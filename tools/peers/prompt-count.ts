import type { ReplicaClient } from '../../src/replicas/replica.ts';
import type { GenerationRequest } from '../../src/core/generation.ts';
import { collect, NEVER_ABORTED, text } from '../../test/engine/requests.ts';
import { PROMPT_CHATS, PROMPT_TEXTS } from '../../test/prompts.ts';

const REQUESTS: readonly GenerationRequest[] = [
  ...PROMPT_CHATS,
  ...PROMPT_TEXTS.map((prompt) => text({}, { prompts: [prompt] })),
].map((request) => ({ ...request, choices: 1, maxTokens: 1 }));

/** Compares the numbers of prompt tokens that a server counts with those in its usage. */
export async function comparePromptCounts(
  client: ReplicaClient,
): Promise<{ agreed: number; differences: string[] }> {
  const differences: string[] = [];
  let agreed = 0;
  for (const request of REQUESTS) {
    const counted = await client.countPromptTokens(request, NEVER_ABORTED);
    const end = (await collect(client.generate(request, NEVER_ABORTED))).at(-1);
    const used = end?.type === 'end' && end.usageSource === 'engine' ? end.usage.promptTokens : null;
    if (counted !== null && counted === used) agreed++;
    else differences.push(`counted ${counted} tokens, used ${used}: ${JSON.stringify(request)}`);
  }
  return { agreed, differences };
}
