import type { Image, Message, ToolCall } from '../generation.ts';
import type { Content } from './images.ts';

type UserContent = Pick<Content, 'text' | 'images'>;

/** The parts of one assistant message, and the results of its calls. */
interface Turn {
  role: 'turn';
  texts: string[];
  reasoning: string[];
  calls: ToolCall[];
  /** By the ID of the call. */
  results: Map<string, string>;
  /** The images of the results. */
  images: Image[];
}

/**
 * The messages of a conversation whose assistant messages arrive in parts: reasoning, text and calls without another
 * message between them are one assistant message, and the results of calls follow the message with the calls.
 */
export class Turns {
  readonly #entries: (Message | Turn)[] = [];
  /** The turn that the next parts of the assistant belong to. */
  #open: Turn | null = null;
  /** The turns of calls without a result, by the ID of the call. */
  readonly #pending = new Map<string, Turn>();

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  /** Whether the last part was one of the assistant. */
  get isOpen(): boolean {
    return this.#open !== null;
  }

  /** IDs of calls without a result. */
  get pending(): readonly string[] {
    return [...this.#pending.keys()];
  }

  addSystem(content: string): void {
    this.#open = null;
    this.#entries.push({ role: 'system', content });
  }

  addUser(content: UserContent): void {
    this.#open = null;
    this.#entries.push(userMessage(content));
  }

  /** Returns the assistant message that the next part belongs to. */
  turn(): Pick<Turn, 'texts' | 'reasoning'> {
    return this.#turn();
  }

  /** Adds a call to the assistant message. Returns false if a call with this ID has no result yet. */
  addCall(call: ToolCall): boolean {
    if (this.#pending.has(call.id)) return false;
    const turn = this.#turn();
    turn.calls.push(call);
    this.#pending.set(call.id, turn);
    return true;
  }

  /**
   * Adds the result of a call. Its images, which only messages of the user can have, follow all results of the turn.
   * Returns false if no call waits for it.
   */
  addResult(id: string, text: string, images: readonly Image[] = []): boolean {
    const turn = this.#pending.get(id);
    if (turn === undefined) return false;
    turn.results.set(id, text);
    turn.images.push(...images);
    this.#pending.delete(id);
    this.#open = null;
    return true;
  }

  messages(): Message[] {
    const messages: Message[] = [];
    /** Images of results that no message of the user has yet. */
    let images: readonly Image[] = [];
    for (const entry of this.#entries) {
      if (images.length > 0 && entry.role === 'user') {
        messages.push(userMessage({ text: entry.content, images: [...images, ...(entry.images ?? [])] }));
        images = [];
        continue;
      }
      if (images.length > 0) messages.push(userMessage({ text: '', images }));
      images = entry.role === 'turn' ? atStart(entry.images) : [];
      if (entry.role === 'turn') messages.push(...messagesOf(entry));
      else messages.push(entry);
    }
    if (images.length > 0) messages.push(userMessage({ text: '', images }));
    return messages;
  }

  #turn(): Turn {
    if (this.#open === null) {
      this.#open = { role: 'turn', texts: [], reasoning: [], calls: [], results: new Map(), images: [] };
      this.#entries.push(this.#open);
    }
    return this.#open;
  }
}

/** Returns a message of the user. */
export function userMessage({ text: content, images }: UserContent): Message {
  return images.length === 0 ? { role: 'user', content } : { role: 'user', content, images };
}

const atStart = (images: readonly Image[]): Image[] => images.map((image) => ({ ...image, at: 0 }));

function messagesOf({ texts, reasoning, calls, results }: Turn): Message[] {
  const content = texts.length === 0 && calls.length > 0 ? null : texts.join('\n\n');
  return [
    {
      role: 'assistant',
      content,
      reasoning: reasoning.length === 0 ? null : reasoning.join('\n\n'),
      toolCalls: calls,
    },
    ...calls.map(({ id }): Message => ({ role: 'tool', toolCallId: id, content: results.get(id) ?? '' })),
  ];
}
