import type { ServiceError } from '../core/errors.ts';
import type { Message, ToolCall } from '../core/generation.ts';
import type { Content } from './images.ts';

type UserContent = Pick<Content, 'text' | 'images'>;

/** The parts of one assistant message, and the results of its calls. */
interface Turn {
  role: 'turn';
  texts: string[];
  reasoning: string[];
  calls: ToolCall[];
  /** By the ID of the call. */
  results: Map<string, UserContent>;
}

/**
 * The messages of a conversation, whose assistant messages may arrive in parts: reasoning, text and calls without another
 * message between them are one assistant message, and the results of calls follow the message with the calls, in their
 * order. Parts without text, and system messages without text, change nothing.
 */
export class ChatHistory {
  readonly #entries: (Message | Turn)[] = [];
  /** The turn that the next parts of the assistant belong to. */
  #open: Turn | null = null;
  /** The turns of calls without a result, by the ID of the call. */
  readonly #pending = new Map<string, Turn>();
  /** The error for a file in the newest message of the user; null: none. */
  #refusal: ServiceError | null = null;
  /** The path of the last message of the assistant, in languages that have such messages; '' if there is none. */
  assistantPath = '';

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
    if (content === '') return;
    this.#open = null;
    this.#entries.push({ role: 'system', content });
  }

  addUser({ text: content, images, refusal = null }: UserContent & Partial<Pick<Content, 'refusal'>>): void {
    this.#open = null;
    this.#refusal ??= refusal;
    this.#entries.push({ role: 'user', content, ...imagesField(images) });
  }

  /** Begins the assistant message at this path, even after another one. */
  begin(path: string): Pick<Turn, 'texts' | 'reasoning'> {
    this.#open = null;
    return this.turn(path);
  }

  /** Returns the assistant message that the next part belongs to. */
  turn(path = this.assistantPath): Pick<Turn, 'texts' | 'reasoning'> {
    this.assistantPath = path;
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

  /** Adds the result of a call. Returns false if no call waits for it. */
  addResult(id: string, content: UserContent): boolean {
    const turn = this.#pending.get(id);
    if (turn === undefined) return false;
    turn.results.set(id, content);
    this.#pending.delete(id);
    this.#open = null;
    return true;
  }

  /** Returns the messages; one of the system if all are of the system and without text. */
  messagesOrEmpty(): Message[] {
    return this.isEmpty ? [{ role: 'system', content: '' }] : this.messages();
  }

  messages(): Message[] {
    if (this.#refusal !== null) throw this.#refusal;
    const messages: Message[] = [];
    for (const entry of this.#entries) {
      if (entry.role === 'turn') messages.push(...messagesOf(entry));
      else messages.push(entry);
    }
    return messages;
  }

  #turn(): Turn {
    if (this.#open === null) {
      this.#refusal = null;
      this.#open = { role: 'turn', texts: [], reasoning: [], calls: [], results: new Map() };
      this.#entries.push(this.#open);
    }
    return this.#open;
  }
}

const NO_CONTENT: UserContent = { text: '', images: [] };

const imagesField = (images: UserContent['images']) => (images.length === 0 ? {} : { images });

function messagesOf({ texts, reasoning, calls, results }: Turn): Message[] {
  const text = joined(texts);
  return [
    {
      role: 'assistant',
      content: text === '' && calls.length > 0 ? null : text,
      reasoning: joined(reasoning) || null,
      toolCalls: calls,
    },
    ...calls.map(({ id }): Message => {
      const { text: content, images } = results.get(id) ?? NO_CONTENT;
      return { role: 'tool', toolCallId: id, content, ...imagesField(images) };
    }),
  ];
}

function joined(texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join('\n\n');
}
