import { MESSAGES } from '../../../src/protocols/anthropic/protocol.ts';
import type { GenerationEvent } from '../../../src/core/generation.ts';
import type { Notes } from '../../../src/core/notes.ts';
import { eventsOf as framesOf, type Read, readBody, REQUEST_ID } from '../responses/samples.ts';

/** Parses a body, by default of an account `account`. */
export function read(fields: object, notes?: Notes, account?: string): Read {
  const body = { model: 'ns/m', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }], ...fields };
  return readBody(MESSAGES, body, notes, account);
}

export interface Block {
  type: string;
  [field: string]: unknown;
}

export interface MessageObject {
  content: Block[];
  stop_reason: string | null;
  stop_sequence: string | null;
  usage: Record<string, unknown>;
  [field: string]: unknown;
}

/** Returns the response to a request with these events. */
export function respond(fields: object, events: readonly GenerationEvent[]): MessageObject {
  const whole = read(fields).parsed.whole(REQUEST_ID);
  for (const event of events) whole.add(event);
  return JSON.parse(String(whole.body())) as MessageObject;
}

export interface StreamEvent {
  type: string;
  index?: number;
  message?: MessageObject;
  content_block?: Block;
  delta?: Record<string, unknown>;
  usage?: Record<string, unknown>;
}

/** Returns the events of a stream. Throws if `event:` and the type differ. */
export function streamOf(fields: object, events: readonly GenerationEvent[]): StreamEvent[] {
  const stream = read(fields).parsed.stream(REQUEST_ID);
  return eventsOf(events.map((event) => stream.format(event)).join('') + stream.end);
}

export function eventsOf(frames: string): StreamEvent[] {
  return framesOf<StreamEvent>(frames);
}

/** Joins the events of a stream to the message, as clients do. Throws if the events are not in order. */
export function accumulate(events: readonly StreamEvent[]): MessageObject {
  const [first, ...rest] = events.filter(({ type }) => type !== 'ping');
  if (first?.message === undefined) throw new Error('no message_start');
  const { message } = first;
  let open: (Block & { json?: string }) | null = null;
  for (const { type, index, content_block: block, delta = {}, usage } of rest) {
    if (index !== undefined && index !== message.content.length) throw new Error(`wrong index ${index}`);
    if (type === 'content_block_start') {
      if (open !== null || block === undefined) throw new Error('a block is open');
      open = { ...block, json: '' };
    } else if (type === 'content_block_delta') {
      if (open === null) throw new Error('no block is open');
      const [field = '', value] = Object.entries(delta).find(([name]) => name !== 'type') ?? [];
      const name = field === 'partial_json' ? 'json' : field;
      open[name] = String(open[name]) + String(value);
    } else if (type === 'content_block_stop') {
      if (open === null) throw new Error('no block is open');
      const { json = '', ...ended } = open;
      message.content.push(json === '' ? ended : { ...ended, input: JSON.parse(json) as unknown });
      open = null;
    } else if (type === 'message_delta') {
      Object.assign(message, delta);
      Object.assign(message.usage, usage);
    }
  }
  if (events.at(-1)?.type !== 'message_stop') throw new Error('no message_stop');
  return message;
}
