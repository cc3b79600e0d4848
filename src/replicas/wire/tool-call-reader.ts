import type { EngineEvent } from '../../core/generation.ts';
import { createToolCallId } from '../../core/tool-call-id.ts';
import { invalidResponse } from '../../core/invalid-response.ts';
import { JsonScanner } from '../../json/json-scanner.ts';
import { asCalls } from '../../json/tool-arguments.ts';
import { asText } from '../../json/values.ts';
import { WellFormedText } from '../../json/well-formed-text.ts';

/** Limits for responses of a replica: the calls of a choice, and the length of an ID or a name. */
const MAX_CALLS = 128;
const MAX_ID_CHARACTERS = 256;

/** Maximum arguments of a choice that are held back because its calls alternate. */
const MAX_HELD_CHARACTERS = 1_048_576;

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

/**
 * Reads `tool_calls` of a delta or, if `whole`, of a message, after `writeArguments`. Text of arguments is passed on even if
 * it is not JSON. Throws `engine_unavailable`.
 */
export function readToolCalls(value: unknown, whole: boolean): readonly ReplicaCall[] {
  return asCalls(value).map((call, position) => {
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
    arguments: asText(called?.arguments),
  };
}

/** Returns an ID or a name, or null if it is missing, empty or not a text. */
function readName(value: unknown): string | null {
  if (typeof value !== 'string' || value === '') return null;
  if (value.length > MAX_ID_CHARACTERS) {
    throw invalidResponse(new Error(`an ID or a name has more than ${MAX_ID_CHARACTERS} characters`));
  }
  return value.toWellFormed();
}

/** A call of which a choice has received parts. */
interface Call {
  /** The index and ID on the replica. */
  index: number | null;
  id: string | null;
  /** The name so far. */
  name: string;
  /** Whether the name is complete. */
  named: boolean;
  /** The index in the events; null: the event `tool-call` was not sent yet. */
  number: number | null;
  hasArguments: boolean;
  /** All arguments so far. */
  readonly text: WellFormedText;
  /** Arguments that were not sent yet. */
  held: string;
  /** Finds the end of the arguments. */
  readonly scanner: JsonScanner;
  /** Whether all events of the call were sent. */
  ended: boolean;
}

/**
 * Converts the tool calls of one choice into events. Each call has an ID, an index from 0, its complete name in one
 * event, and arguments that are never empty unless the response was cut off. Some servers alternate between calls: the
 * parts of a call are held back until the arguments of the call before it are complete.
 */
export class ToolCallReader {
  readonly #choice: number;
  readonly #offered: readonly string[];
  readonly #calls: Call[] = [];
  /** Calls with a name whose events were not all sent, in the order of the events. */
  readonly #queue: Call[] = [];
  /** The call of the last part. */
  #latest: Call | undefined;
  /** The IDs that were sent. */
  readonly #ids = new Set<string>();
  #heldCharacters = 0;

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
    return this.#ids.size;
  }

  /** Adds the events that a part completes. Throws `engine_unavailable`. */
  push(part: ReplicaCall, completionTokens: number, events: EngineEvent[]): void {
    const call = this.#callOf(part);
    this.#latest = call;
    if (call.ended) {
      if (part.arguments.trim() === '') return;
      throw invalidResponse(new Error('arguments follow the end of a tool call'));
    }
    this.#addName(call, part);
    this.#addArguments(call, part.arguments);
    for (let first = this.#queue[0]; first?.named; first = this.#queue[0]) {
      this.#send(first, completionTokens, events);
      if (this.#queue.length === 1 || !first.scanner.ended) break;
      this.#endFirst();
    }
    if (this.#heldCharacters > MAX_HELD_CHARACTERS) {
      throw invalidResponse(
        new Error(`more than ${MAX_HELD_CHARACTERS} characters of alternating tool calls`),
      );
    }
  }

  /**
   * Ends all calls. Arguments that the replica omitted become `{}`, because clients parse them, except those of the last
   * call if the response is cut off.
   */
  end(completionTokens: number, events: EngineEvent[], isCutOff: boolean): void {
    for (let first = this.#queue[0]; first !== undefined; first = this.#queue[0]) {
      const isIncomplete = isCutOff && first === this.#latest;
      if (!first.hasArguments && !isIncomplete) first.held = '{}';
      if (first.named || !isIncomplete) this.#send(first, completionTokens, events);
      this.#endFirst();
    }
  }

  #callOf(part: ReplicaCall): Call {
    const isAnonymous = part.index === null && part.id === null;
    const known = isAnonymous ? this.#latest : this.#knownCallOf(part);
    const call = known ?? (part.index === null ? this.#latest : undefined);
    if (call !== undefined && !startsNextCall(part, call)) return call;
    return this.#addCall(part.index);
  }

  #knownCallOf(part: ReplicaCall): Call | undefined {
    const calls = this.#calls.filter((call) => isPartOf(part, call));
    // Some servers give parallel calls the same index.
    return calls.findLast(({ id }) => id === part.id) ?? calls.at(-1);
  }

  #addCall(index: number | null): Call {
    if (this.#calls.length === MAX_CALLS) {
      throw invalidResponse(new Error(`a choice has more than ${MAX_CALLS} tool calls`));
    }
    const call: Call = {
      index,
      id: null,
      name: '',
      named: false,
      number: null,
      hasArguments: false,
      text: new WellFormedText(),
      held: '',
      scanner: new JsonScanner(),
      ended: false,
    };
    this.#calls.push(call);
    return call;
  }

  #addName(call: Call, part: ReplicaCall): void {
    call.id ??= part.id;
    if (call.named || part.name === null || part.name === call.name) return;
    if (call.name === '') this.#queue.push(call);
    call.name += part.name;
    call.named = !this.#mayBeIncomplete(call.name);
  }

  #addArguments(call: Call, part: string): void {
    if (part === '') return;
    if (call.name === '') throw invalidResponse(new Error('a tool call has no name'));
    call.named = call.hasArguments = true;
    // Complete arguments end with a brace, so at most half a character of a response that is cut off is left out.
    const text = call.text.add(part, false);
    call.held += text;
    this.#heldCharacters += text.length;
    call.scanner.scan(text);
  }

  #mayBeIncomplete(name: string): boolean {
    return !this.#offered.includes(name) && this.#offered.some((offered) => offered.startsWith(name));
  }

  /** Sends the parts of a call that were held back. */
  #send(call: Call, completionTokens: number, events: EngineEvent[]): void {
    const choice = this.#choice;
    if (call.number === null) {
      call.number = this.count;
      // Some servers give all calls the same ID, but callers must send back calls with unique IDs.
      const id = call.id === null || this.#ids.has(call.id) ? createToolCallId() : call.id;
      this.#ids.add(id);
      events.push({ type: 'tool-call', choice, call: call.number, id, name: call.name, completionTokens });
    }
    if (call.held === '') return;
    events.push({ type: 'tool-arguments', choice, call: call.number, text: call.held, completionTokens });
    if (call.hasArguments) this.#heldCharacters -= call.held.length;
    call.held = '';
  }

  #endFirst(): void {
    const call = this.#queue.shift();
    if (call !== undefined) call.ended = true;
  }
}

/** Whether a part has the index of a call, or its ID if one of them has no index. */
function isPartOf(part: ReplicaCall, { index, id }: Call): boolean {
  if (part.index !== null && index !== null) return part.index === index;
  return part.id === null || part.id === id;
}

/** Whether a part is the first of a call after `call`, although it has the same index or none. */
function startsNextCall(part: ReplicaCall, call: Call): boolean {
  const otherId = part.id !== null && call.id !== null && part.id !== call.id;
  // Some servers give parallel calls the same index, and others give each part of a call a new ID.
  if (part.index !== null && call.index !== null) return otherId && part.name !== null;
  return part.id === null || call.id === null ? part.name !== null && call.named : otherId;
}
