import type { TokenLogprob } from '../generation.ts';
import { tokenLogprobs } from '../openai/logprobs.ts';
import { CustomInput } from './custom-input.ts';
import type { ToolIdentity } from './tools.ts';

/** Emits an event of a stream. `members` are its fields as JSON, without the braces. */
export type Emit = (type: string, members: string) => void;

/** Returns fields as JSON, without the braces. */
export function members(fields: object): string {
  return JSON.stringify(fields).slice(1, -1);
}

/** `incomplete`: cut off. */
export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

/** An item of a response, which is written in parts. */
export abstract class Item {
  /** Null: the response is not a stream. */
  protected readonly events: ItemEvents | null;
  readonly id: string;

  constructor(emit: Emit | null, id: string, index: number) {
    this.events = emit === null ? null : new ItemEvents(emit, id, index);
    this.id = id;
  }

  abstract json(status: ItemStatus): object;

  /** Emits the first events. */
  begin(): void {
    this.events?.emit('response.output_item.added', { item: this.json('in_progress') });
  }

  /** Emits the last events. Returns the item. */
  end(status: ItemStatus): object {
    this.endContent();
    const item = this.json(status);
    this.events?.emit('response.output_item.done', { item });
    return item;
  }

  protected abstract endContent(): void;
}

/** Emits the events of an item. What they have in common is formatted once, because there is one for each token. */
class ItemEvents {
  readonly #emit: Emit;
  readonly #item: string;
  readonly #part: string;

  constructor(emit: Emit, id: string, index: number) {
    this.#emit = emit;
    this.#item = `"output_index":${index},`;
    this.#part = `${this.#item}"item_id":"${id}","content_index":0,`;
  }

  emit(type: string, fields: object): void {
    this.#emit(type, this.#item + members(fields));
  }

  /** Emits an event of the only part of the item. */
  emitPart(type: string, fields: object): void {
    this.#emit(type, this.#part + members(fields));
  }
}

/** A message of the assistant. */
export class MessageItem extends Item {
  readonly #alternatives: number;
  readonly #logprobs: object[] = [];
  #text = '';
  #begun = false;

  /** `alternatives`: number of most likely tokens in log probabilities. */
  constructor(emit: Emit | null, id: string, index: number, alternatives: number) {
    super(emit, id, index);
    this.#alternatives = alternatives;
  }

  override begin(): void {
    super.begin();
    this.#begun = true;
    this.events?.emitPart('response.content_part.added', { part: this.#part() });
  }

  add(text: string, tokens: readonly TokenLogprob[]): void {
    const logprobs = tokenLogprobs(tokens, this.#alternatives);
    this.#text += text;
    for (const logprob of logprobs) this.#logprobs.push(logprob);
    this.events?.emitPart('response.output_text.delta', { delta: text, logprobs });
  }

  json(status: ItemStatus): object {
    const content = this.#begun ? [this.#part()] : [];
    return { type: 'message', id: this.id, status, role: 'assistant', content };
  }

  protected endContent(): void {
    this.events?.emitPart('response.output_text.done', { text: this.#text, logprobs: this.#logprobs });
    this.events?.emitPart('response.content_part.done', { part: this.#part() });
  }

  #part(): object {
    return { type: 'output_text', text: this.#text, annotations: [], logprobs: [...this.#logprobs] };
  }
}

/** The reasoning before a message or a call. */
export class ReasoningItem extends Item {
  readonly #seal: ((text: string) => string) | null;
  #text = '';

  /** `seal` encrypts the text for callers who keep it; null: they did not ask for it. */
  constructor(emit: Emit | null, id: string, index: number, seal: ((text: string) => string) | null) {
    super(emit, id, index);
    this.#seal = seal;
  }

  override begin(): void {
    super.begin();
    this.events?.emitPart('response.content_part.added', { part: this.#part() });
  }

  add(text: string): void {
    this.#text += text;
    this.events?.emitPart('response.reasoning_text.delta', { delta: text });
  }

  json(status: ItemStatus): object {
    const content = this.#text === '' ? [] : [this.#part()];
    const sealed =
      this.#seal === null || status === 'in_progress' ? {} : { encrypted_content: this.#seal(this.#text) };
    return { type: 'reasoning', id: this.id, status, summary: [], content, ...sealed };
  }

  protected endContent(): void {
    this.events?.emitPart('response.reasoning_text.done', { text: this.#text });
    this.events?.emitPart('response.content_part.done', { part: this.#part() });
  }

  #part(): object {
    return { type: 'reasoning_text', text: this.#text };
  }
}

/** A call of a function. */
export class CallItem extends Item {
  readonly #callId: string;
  readonly #tool: ToolIdentity;
  #arguments = '';

  constructor(emit: Emit | null, id: string, index: number, callId: string, tool: ToolIdentity) {
    super(emit, id, index);
    this.#callId = callId;
    this.#tool = tool;
  }

  /** Adds a part of the arguments. */
  add(text: string): void {
    if (text === '') return;
    this.#arguments += text;
    this.events?.emit('response.function_call_arguments.delta', { item_id: this.id, delta: text });
  }

  json(status: ItemStatus): object {
    const head = { type: 'function_call', id: this.id, status, call_id: this.#callId };
    return { ...head, ...nameOf(this.#tool), arguments: this.#arguments };
  }

  protected endContent(): void {
    this.events?.emit('response.function_call_arguments.done', {
      item_id: this.id,
      name: this.#tool.name,
      arguments: this.#arguments,
    });
  }
}

/** A call of a custom tool: its input is the only argument of the function that the model called. */
export class CustomCallItem extends Item {
  readonly #callId: string;
  readonly #tool: ToolIdentity;
  readonly #input = new CustomInput();

  constructor(emit: Emit | null, id: string, index: number, callId: string, tool: ToolIdentity) {
    super(emit, id, index);
    this.#callId = callId;
    this.#tool = tool;
  }

  /** Adds a part of the arguments. */
  add(text: string): void {
    this.#emitDelta(this.#input.push(text));
  }

  json(status: ItemStatus): object {
    const head = { type: 'custom_tool_call', id: this.id, status, call_id: this.#callId };
    return { ...head, ...nameOf(this.#tool), input: this.#input.text };
  }

  protected endContent(): void {
    this.#emitDelta(this.#input.end());
    this.events?.emit('response.custom_tool_call_input.done', { item_id: this.id, input: this.#input.text });
  }

  #emitDelta(delta: string): void {
    if (delta !== '') this.events?.emit('response.custom_tool_call_input.delta', { item_id: this.id, delta });
  }
}

function nameOf({ name, namespace }: ToolIdentity): object {
  return namespace === null ? { name } : { name, namespace };
}
