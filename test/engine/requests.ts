import type { ReplicaEvent } from '../../src/replicas/replica.ts';
import type { ChatRequest, TextRequest } from '../../src/core/generation.ts';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import { GREEDY, NO_TOOLS, STREAMED } from '../generation-requests.ts';

/** The model ID of all engines in these tests. */
export const MODEL = 'test/model';

const plain = { ...STREAMED, model: MODEL, sampling: GREEDY };

/** Creates a streaming chat with the directive as its message. */
export function chat(directive: Directive = {}, more: Partial<ChatRequest> = {}): ChatRequest {
  return {
    ...plain,
    ...NO_TOOLS,
    kind: 'chat',
    messages: [{ role: 'user', content: scripted(directive) }],
    ...more,
  };
}

/** Creates a streaming text completion with the directive as its prompt. */
export function text(directive: Directive = {}, more: Partial<TextRequest> = {}): TextRequest {
  return { ...plain, kind: 'text', prompts: [scripted(directive)], echo: false, ...more };
}

/** All events until the end. */
export async function collect<Event>(events: AsyncIterable<Event>): Promise<Event[]> {
  return Array.fromAsync(events);
}

/** Returns the text of one choice. */
export function textOf(events: readonly ReplicaEvent[], choice = 0): string {
  return events
    .map((event) => (event.type === 'token' && event.choice === choice ? event.text : ''))
    .join('');
}

/** A signal that is never aborted. */
export const NEVER_ABORTED = new AbortController().signal;

/** Resolves when the number has not changed for 300 turns of the event loop. */
export async function settled(read: () => number): Promise<number> {
  let last = read();
  for (let turns = 0; turns < 300; turns++) {
    await new Promise((resolve) => setImmediate(resolve));
    if (read() === last) continue;
    last = read();
    turns = 0;
  }
  return last;
}
