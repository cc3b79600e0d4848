import type { GenerationEvent } from '../generation.ts';
import { invalidResponse } from './invalid-response.ts';
import { createToolCallId } from './tool-call-id.ts';

/** Limits for responses of a replica: the calls of a choice, and the length of an ID or a name. */
const MAX_CALLS = 128;
const MAX_ID_CHARACTERS = 256;

/** A tool call or a part of one, in any dialect. */
export interface ReplicaCall {
  /** Null: not sent. */
  index: number | null;
  /** Null: not sent. */
  id: string | null;
  /** Null: not sent. */
  name: string | null;
  /** May be empty. */
  arguments: string;
}

/** Reads `tool_calls` of a delta or, if `whole`, of a message. Throws `engine_unavailable`. */
export function readToolCalls(value: unknown, whole: boolean): readonly ReplicaCall[] {
  if (value === undefined || value === null) return [];
  // Older releases of TGI send one object in a delta.
  const calls: readonly unknown[] = Array.isArray(value) ? value : [value];
  return calls.map((call, position) => {
    const part = readCall(call);
    return whole ? { ...part, index: position } : part;
  });
}

interface WireCall {
  index?: unknown;
  id?: unknown;
  function?: { name?: unknown; arguments?: unknown } | null;
}

function readCall(value: unknown): ReplicaCall {
  if (typeof value !== 'object' || value === null) {
    throw invalidResponse(new Error('a tool call is not an object'));
  }
  const { index = null, id, function: called } = value as WireCall; // Each field is checked here.
  if (index !== null && !(typeof index === 'number' && Number.isSafeInteger(index) && index >= 0)) {
    throw invalidResponse(new Error('the index of a tool call is not a whole number'));
  }
  return {
    index,
    id: readName(id),
    name: readName(called?.name),
    arguments: readArguments(called?.arguments),
  };
}

/** Returns an ID or a name, or null if it is missing, empty or not a text. */
function readName(value: unknown): string | null {
  if (typeof value !== 'string' || value === '') return null;
  if (value.length > MAX_ID_CHARACTERS) {
    throw invalidResponse(new Error(`an ID or a name has more than ${MAX_ID_CHARACTERS} characters`));
  }
  return value;
}

/** TGI sends arguments as an object. Text is passed on even if it is not JSON. */
function readArguments(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The call whose parts a choice is currently receiving. */
interface OpenCall {
  /** The index and ID on the replica. */
  index: number | null;
  id: string | null;
  /** The name so far. */
  name: string;
  /** Whether the name is complete. The `tool-call` event is sent at that time. */
  named: boolean;
  hasArguments: boolean;
}

/**
 * Converts the tool calls of one choice into events. Each call has an ID, an index from 0, its complete name in one
 * event, and arguments that are never empty unless the response was cut off.
 */
export class ToolCallReader {
  readonly #choice: number;
  readonly #offered: readonly string[];
  #count = 0;
  #open: OpenCall | null = null;

  /**
   * `offered` lists the names of the functions in the request. A name that is only a prefix of one of them is treated
   * as incomplete.
   */
  constructor(choice: number, offered: readonly string[] = []) {
    this.#choice = choice;
    this.#offered = offered;
  }

  /** Calls so far. */
  get count(): number {
    return this.#count;
  }

  /** Adds the events of a part. Throws `engine_unavailable`. */
  push(part: ReplicaCall, completionTokens: number, events: GenerationEvent[]): void {
    const open = this.#callOf(part, completionTokens, events);
    if (isEarlier(part, open)) {
      if (part.arguments === '') return;
      throw invalidResponse(new Error('arguments belong to an earlier tool call'));
    }
    open.id ??= part.id;
    if (!open.named && part.name !== null && part.name !== open.name) open.name += part.name;
    if (part.arguments === '' && this.#mayBeIncomplete(open.name)) return;
    this.#pushName(open, completionTokens, events);
    if (part.arguments === '') return;
    if (!open.named) throw invalidResponse(new Error('a tool call has no name'));
    open.hasArguments = true;
    this.#pushArguments(part.arguments, completionTokens, events);
  }

  /** Completes the last call. Arguments that the replica omitted become `{}`, because clients parse them. */
  end(completionTokens: number, events: GenerationEvent[]): void {
    if (this.#open !== null) this.#pushName(this.#open, completionTokens, events);
    if (this.#open?.named && !this.#open.hasArguments) this.#pushArguments('{}', completionTokens, events);
    this.#open = null;
  }

  #callOf(part: ReplicaCall, completionTokens: number, events: GenerationEvent[]): OpenCall {
    if (this.#open !== null && !startsNextCall(part, this.#open)) return this.#open;
    this.end(completionTokens, events);
    this.#open = { index: part.index, id: part.id, name: '', named: false, hasArguments: false };
    return this.#open;
  }

  #mayBeIncomplete(name: string): boolean {
    return !this.#offered.includes(name) && this.#offered.some((offered) => offered.startsWith(name));
  }

  #pushName(open: OpenCall, completionTokens: number, events: GenerationEvent[]): void {
    const { name } = open;
    if (open.named || name === '') return;
    if (this.#count === MAX_CALLS) {
      throw invalidResponse(new Error(`a choice has more than ${MAX_CALLS} tool calls`));
    }
    open.named = true;
    const id = open.id ?? createToolCallId();
    const call = this.#count++;
    events.push({ type: 'tool-call', choice: this.#choice, call, id, name, completionTokens });
  }

  #pushArguments(text: string, completionTokens: number, events: GenerationEvent[]): void {
    const call = this.#count - 1;
    events.push({ type: 'tool-arguments', choice: this.#choice, call, text, completionTokens });
  }
}

/** Whether a part is the first of the next call. */
function startsNextCall(part: ReplicaCall, open: OpenCall): boolean {
  const otherId = part.id !== null && open.id !== null && part.id !== open.id;
  if (part.index !== null && open.index !== null) {
    // Some servers give parallel calls the same index, and others give each part of a call a new ID.
    return part.index > open.index || (part.index === open.index && otherId && part.name !== null);
  }
  return part.id === null || open.id === null ? part.name !== null && open.named : otherId;
}

function isEarlier(part: ReplicaCall, open: OpenCall): boolean {
  return part.index !== null && open.index !== null && part.index < open.index;
}
