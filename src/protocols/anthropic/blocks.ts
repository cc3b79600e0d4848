import { parseExactJson } from '../../json/exact-json.ts';
import { jsonObject } from '../../json/values.ts';
import type { ResponsePart, Send } from '../part-writer.ts';

/** Formats an event of a stream. */
export function frame(type: string, fields: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
}

/** A block of a response, which is written in parts. */
export abstract class Block implements ResponsePart<object> {
  /** Null: the response is not a stream. */
  protected readonly send: Send | null;
  readonly index: number;
  /** The text so far; of a call, its arguments. */
  protected text = '';
  #deltaStart = '';

  constructor(send: Send | null, index: number) {
    this.send = send;
    this.index = index;
  }

  /** Returns the complete block. */
  abstract json(): object;

  /** Sends the first event. */
  begin(): void {
    const { type, field } = this.delta;
    this.#deltaStart = `event: content_block_delta\ndata: {"type":"content_block_delta","index":${this.index},"delta":{"type":"${type}","${field}":`;
    this.send?.(frame('content_block_start', { index: this.index, content_block: this.start }));
  }

  add(text: string): void {
    if (text === '') return;
    this.text += text;
    this.emitDelta(text);
  }

  /** Sends the last event. Returns the complete block. */
  end(): object {
    this.send?.(frame('content_block_stop', { index: this.index }));
    return this.json();
  }

  protected emitDelta(text: string): void {
    this.send?.(`${this.#deltaStart}${JSON.stringify(text)}}}\n\n`);
  }

  /** The block in the first event. */
  protected abstract get start(): object;

  /** The type of the deltas, and the field with their text. */
  protected abstract get delta(): { type: string; field: string };
}

export class TextBlock extends Block {
  json(): object {
    return { type: 'text', text: this.text, citations: null };
  }

  protected get start(): object {
    return { type: 'text', text: '', citations: null };
  }

  protected get delta() {
    return { type: 'text_delta', field: 'text' };
  }
}

/** Thinking, and a signature that contains it, from which it is read when it is sent back. */
export class ThinkingBlock extends Block {
  readonly #seal: (text: string) => string;
  readonly #omitted: boolean;
  #signature = '';

  /** `omitted`: only the signature is sent. */
  constructor(send: Send | null, index: number, seal: (text: string) => string, omitted: boolean) {
    super(send, index);
    this.#seal = seal;
    this.#omitted = omitted;
  }

  json(): object {
    return { type: 'thinking', thinking: this.#omitted ? '' : this.text, signature: this.#signature };
  }

  override end(): object {
    this.#signature = this.#seal(this.text);
    const delta = { type: 'signature_delta', signature: this.#signature };
    this.send?.(frame('content_block_delta', { index: this.index, delta }));
    return super.end();
  }

  protected override emitDelta(text: string): void {
    if (!this.#omitted) super.emitDelta(text);
  }

  protected get start(): object {
    return { type: 'thinking', thinking: '', signature: '' };
  }

  protected get delta() {
    return { type: 'thinking_delta', field: 'thinking' };
  }
}

export class CallBlock extends Block {
  readonly #id: string;
  readonly #name: string;

  constructor(send: Send | null, index: number, id: string, name: string) {
    super(send, index);
    this.#id = id;
    this.#name = name;
  }

  json(): object {
    return { ...this.start, input: inputOf(this.text) };
  }

  protected get start(): object {
    return { type: 'tool_use', id: this.#id, caller: DIRECT, name: this.#name, input: {} };
  }

  protected get delta() {
    return { type: 'input_json_delta', field: 'partial_json' };
  }
}

/** Calls are made by the model itself, and not by code that it runs. */
const DIRECT = { type: 'direct' };

/** Returns the arguments of a call. Those that are not the JSON of an object become a member of one, as in requests. */
function inputOf(text: string): object {
  if (text === '') return {};
  try {
    const value = parseExactJson(text);
    if (jsonObject(value) === value) return value;
  } catch {
    // Not JSON.
  }
  return { INVALID_JSON: text };
}
