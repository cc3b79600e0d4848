import { flatten } from '../../support/event-stream.ts';
import type { ResponsePart } from '../part-writer.ts';
import { CustomInput } from './custom-input.ts';
import type { ToolIdentity } from './tools.ts';

/**
 * Emits an event of a stream. `start` is everything before its sequence number (`eventStart`); `members` are its other
 * fields as JSON, without the braces.
 */
export type Emit = (start: string, members: string) => void;

/** Returns the start of the events of a type. */
export function eventStart(type: string): string {
  return `event: ${type}\ndata: {"type":"${type}","sequence_number":`;
}

/** Returns fields as JSON, without the braces. */
export function members(fields: object): string {
  return JSON.stringify(fields).slice(1, -1);
}

/** `incomplete`: cut off. */
export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

/** An item of a response, which is written in parts. */
export abstract class Item implements ResponsePart<string> {
  /** Null: the response is not a stream. */
  protected readonly events: ItemEvents | null;
  readonly id: string;

  /** `place`: where its content is, as members of events that end with a comma. */
  constructor(emit: Emit | null, id: string, index: number, place = '') {
    this.events = emit === null ? null : new ItemEvents(emit, id, index, place);
    this.id = id;
  }

  /** Returns the item so far as JSON. */
  abstract json(status: ItemStatus): string;

  /** Emits the first events. */
  begin(): void {
    this.events?.emit('response.output_item.added', this.json('in_progress'));
  }

  /** Emits the last events. Returns the item as JSON. */
  end(status: ItemStatus): string {
    this.endContent();
    const item = this.json(status);
    this.events?.emit('response.output_item.done', item);
    return item;
  }

  abstract add(text: string): void;

  protected abstract endContent(): void;
}

/** Emits the events of an item. What they have in common is formatted once, because there is one for each token. */
class ItemEvents {
  readonly #emit: Emit;
  readonly #index: string;
  readonly #content: string;

  constructor(emit: Emit, id: string, index: number, place: string) {
    this.#emit = emit;
    this.#index = `"output_index":${index},`;
    this.#content = flatten(`${this.#index}"item_id":"${id}",${place}`);
  }

  emit(type: string, item: string): void {
    this.#emit(eventStart(type), `${this.#index}"item":${item}`);
  }

  /** Emits an event of the content of the item. `fields`: JSON without the braces. */
  emitContent(type: string, fields: string): void {
    this.#emit(eventStart(type), this.#content + fields);
  }

  /** Emits a part of the content. `rest`: the fields after it, as JSON that begins with a comma. */
  emitDelta(start: string, delta: string, rest = ''): void {
    this.#emit(start, `${this.#content}"delta":${JSON.stringify(delta)}${rest}`);
  }
}

/** Where the content of items with one part is. */
const FIRST_PART = '"content_index":0,';

const TEXT_DELTA = eventStart('response.output_text.delta');

/** A message of the assistant. */
export class MessageItem extends Item {
  /** Items of a JSON array. */
  #logprobs = '';
  #text = '';
  #begun = false;

  constructor(emit: Emit | null, id: string, index: number) {
    super(emit, id, index, FIRST_PART);
  }

  override begin(): void {
    super.begin();
    this.#begun = true;
    this.events?.emitContent('response.content_part.added', `"part":${this.#part()}`);
  }

  /** `logprobs`: the items of a JSON array, or ''. */
  add(text: string, logprobs = ''): void {
    this.#text += text;
    if (logprobs !== '') this.#logprobs += this.#logprobs === '' ? logprobs : `,${logprobs}`;
    this.events?.emitDelta(TEXT_DELTA, text, `,"logprobs":[${logprobs}]`);
  }

  json(status: ItemStatus): string {
    const content = this.#begun ? this.#part() : '';
    return `{"type":"message","id":"${this.id}","status":"${status}","role":"assistant","content":[${content}]}`;
  }

  protected endContent(): void {
    const fields = `"text":${JSON.stringify(this.#text)},"logprobs":[${this.#logprobs}]`;
    this.events?.emitContent('response.output_text.done', fields);
    this.events?.emitContent('response.content_part.done', `"part":${this.#part()}`);
  }

  #part(): string {
    return `{"type":"output_text","text":${JSON.stringify(this.#text)},"annotations":[],"logprobs":[${this.#logprobs}]}`;
  }
}

const REASONING_DELTA = eventStart('response.reasoning_text.delta');

/** The reasoning before a message or a call. */
export class ReasoningItem extends Item {
  readonly #seal: ((text: string) => string) | null;
  #text = '';

  /** `seal` encrypts the text for callers who keep it; null: they did not ask for it. */
  constructor(emit: Emit | null, id: string, index: number, seal: ((text: string) => string) | null) {
    super(emit, id, index, FIRST_PART);
    this.#seal = seal;
  }

  override begin(): void {
    super.begin();
    this.events?.emitContent('response.content_part.added', `"part":${this.#part()}`);
  }

  add(text: string): void {
    this.#text += text;
    this.events?.emitDelta(REASONING_DELTA, text);
  }

  json(status: ItemStatus): string {
    const content = this.#text === '' ? '' : this.#part();
    const isSealed = this.#seal !== null && status !== 'in_progress';
    const sealed = isSealed ? `,"encrypted_content":${JSON.stringify(this.#seal(this.#text))}` : '';
    return `{"type":"reasoning","id":"${this.id}","status":"${status}","summary":[],"content":[${content}]${sealed}}`;
  }

  protected endContent(): void {
    this.events?.emitContent('response.reasoning_text.done', members({ text: this.#text }));
    this.events?.emitContent('response.content_part.done', `"part":${this.#part()}`);
  }

  #part(): string {
    return `{"type":"reasoning_text","text":${JSON.stringify(this.#text)}}`;
  }
}

const ARGUMENTS_DELTA = eventStart('response.function_call_arguments.delta');

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
    this.events?.emitDelta(ARGUMENTS_DELTA, text);
  }

  json(status: ItemStatus): string {
    const head = { type: 'function_call', id: this.id, status, call_id: this.#callId };
    return JSON.stringify({ ...head, ...nameOf(this.#tool), arguments: this.#arguments });
  }

  protected endContent(): void {
    const called = { name: this.#tool.name, arguments: this.#arguments };
    this.events?.emitContent('response.function_call_arguments.done', members(called));
  }
}

const INPUT_DELTA = eventStart('response.custom_tool_call_input.delta');

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

  json(status: ItemStatus): string {
    const head = { type: 'custom_tool_call', id: this.id, status, call_id: this.#callId };
    return JSON.stringify({ ...head, ...nameOf(this.#tool), input: this.#input.text });
  }

  protected endContent(): void {
    this.#emitDelta(this.#input.end());
    this.events?.emitContent('response.custom_tool_call_input.done', members({ input: this.#input.text }));
  }

  #emitDelta(delta: string): void {
    if (delta !== '') this.events?.emitDelta(INPUT_DELTA, delta);
  }
}

function nameOf({ name, namespace }: ToolIdentity): object {
  return namespace === null ? { name } : { name, namespace };
}
