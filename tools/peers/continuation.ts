import { continuesFromTokenIds } from '../../src/replicas/continuation.ts';
import type { ReplicaClient, ReplicaEvent } from '../../src/replicas/replica.ts';
import {
  NO_USAGE,
  type Continuation,
  type GenerationRequest,
  type Message,
} from '../../src/core/generation.ts';
import { chat, collect, NEVER_ABORTED, text, textOf } from '../../test/engine/requests.ts';

const QUESTION: Message = { role: 'user', content: 'Write two sentences about rain, with the emoji 🌧️ 🙂.' };

const REQUESTS: readonly GenerationRequest[] = [
  chat({}, { messages: [QUESTION], maxTokens: 48, templateVariables: { enable_thinking: false } }),
  text({}, { prompts: ['The capital of France is'], maxTokens: 48 }),
];

/** Continues greedy responses of a server after each of their tokens, and compares the text with the unbroken one. */
export async function compareContinuations(
  client: ReplicaClient,
): Promise<{ agreed: number; differences: string[] }> {
  const tokenIds = continuesFromTokenIds(client.dialect);
  const differences: string[] = [];
  let agreed = 0;
  for (const request of REQUESTS) {
    const unbroken = await collect(client.generate({ ...request, tokenIds }, NEVER_ABORTED));
    const whole = textOf(unbroken);
    for (let cut = 1; cut < unbroken.length; cut++) {
      // After the last token, the service completes the response itself.
      if (unbroken[cut - 1]?.type !== 'token' || unbroken[cut]?.type !== 'token') continue;
      const received = unbroken.slice(0, cut);
      const continuation = continuationOf(received);
      const rest = await collect(client.generate({ ...request, tokenIds, continuation }, NEVER_ABORTED));
      const actual = continuation.text + textOf(rest);
      if (actual === whole) agreed++;
      else
        differences.push(`${request.kind}, after ${JSON.stringify(continuation.text.slice(-20))}: ${actual}`);
    }
  }
  return { agreed, differences };
}

function continuationOf(events: readonly ReplicaEvent[]): Continuation {
  let promptTokenIds: readonly number[] | null = null;
  let usage = NO_USAGE;
  const tokenIds: number[] = [];
  for (const event of events) {
    if (event.type === 'started') promptTokenIds = event.promptTokenIds ?? null;
    if (event.type !== 'token') continue;
    usage = { ...usage, completionTokens: event.completionTokens };
    tokenIds.push(...(event.tokenIds ?? []));
  }
  return { promptTokenIds, tokenIds, text: textOf(events), usage };
}
