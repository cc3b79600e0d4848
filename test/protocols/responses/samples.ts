import { Sealing } from '../../../src/accounts/sealing.ts';
import type { ChatRequest, GenerationEvent, Message } from '../../../src/core/generation.ts';
import { Notes } from '../../../src/core/notes.ts';
import type { JsonObject } from '../../../src/json/values.ts';
import type { ParsedRequest, Protocol } from '../../../src/core/protocol.ts';
import { RESPONSES } from '../../../src/protocols/responses/protocol.ts';

export const sealing = new Sealing([{ id: 'a1b2c3d4', bytes: Buffer.alloc(32, 1) }]);

export const REQUEST_ID = '01a21809-55f9-705c-a68f-88cc60621cf8';

export interface Read {
  parsed: ParsedRequest;
  request: ChatRequest;
  messages: readonly Message[];
  /** Each note as its path and what happened. */
  notes: string[];
}

/** Parses a body, by default of an account `account`. */
export function read(fields: object, notes?: Notes, account?: string): Read {
  return readBody(RESPONSES, { model: 'ns/m', input: 'Hi', ...fields }, notes, account);
}

/** Parses a body of a protocol whose requests are chats. */
export function readBody(
  protocol: Protocol,
  body: JsonObject,
  notes = new Notes(),
  account = 'account',
): Read {
  const parsed = protocol.parse(body, { maxChoices: 16, notes, sealer: sealing.of(account) });
  const request = parsed.generation as ChatRequest; // The kind of the protocol is `chat`.
  return {
    parsed,
    request,
    messages: request.messages,
    notes: notes.list.map(({ path, what }) => `${path} ${what}`),
  };
}

export interface Item {
  type: string;
  [field: string]: unknown;
}

export interface ResponseObject {
  status: string;
  output: Item[];
  [field: string]: unknown;
}

/** Returns the response to a request with these events. */
export function respond(
  { parsed }: Pick<Read, 'parsed'>,
  events: readonly GenerationEvent[],
): ResponseObject {
  const whole = parsed.whole(REQUEST_ID);
  for (const event of events) whole.add(event);
  return JSON.parse(String(whole.body())) as ResponseObject;
}

export interface StreamEvent {
  type: string;
  sequence_number: number;
  [field: string]: unknown;
}

/** Reads the frames of a stream. Throws if `event:` and the type differ. */
export function eventsOf<E extends { type: string } = StreamEvent>(frames: string): E[] {
  return frames
    .split('\n\n')
    .filter((frame) => frame !== '')
    .map((frame) => {
      const [, type, data = ''] = /^event: (.+)\ndata: (.+)$/.exec(frame) ?? [];
      const event = JSON.parse(data) as E; // Of the language that the test reads.
      if (event.type !== type) throw new Error(`event: ${type}, but type: ${event.type}`);
      return event;
    });
}

const USAGE = { promptTokens: 9, completionTokens: 3, cachedTokens: 4, reasoningTokens: 1 };

export const STARTED: GenerationEvent = { type: 'started', promptTokens: 9, cachedTokens: 4 };

/** Returns the last events of a generation. */
export function ending(
  reason: 'stop' | 'length' | 'tool_calls' | 'content_filter' = 'stop',
): GenerationEvent[] {
  return [
    { type: 'finish', choice: 0, reason, stopSequence: null },
    { type: 'end', usage: USAGE, usageSource: 'engine' },
  ];
}

export function token(text: string): GenerationEvent {
  return { type: 'token', choice: 0, text, completionTokens: 1, logprobs: null };
}

export function thought(text: string): GenerationEvent {
  return { type: 'reasoning', choice: 0, text, completionTokens: 1, logprobs: null };
}

/** Returns the events of a call whose arguments arrive in these parts. */
export function call(id: string, name: string, ...parts: string[]): GenerationEvent[] {
  return [
    { type: 'tool-call', choice: 0, call: 0, completionTokens: 1, id, name },
    ...parts.map((text): GenerationEvent => ({
      type: 'tool-arguments',
      choice: 0,
      call: 0,
      completionTokens: 1,
      text,
    })),
  ];
}
