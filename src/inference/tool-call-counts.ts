import {
  isCutOff,
  toolsOf,
  type FinishReason,
  type GenerationRequest,
  type ToolEvent,
} from '../generation.ts';

/** Maximum length of arguments that are checked, in characters. Longer ones count as valid. */
const MAX_CHECKED = 1_048_576;

interface OpenCall {
  name: string;
  arguments: string;
}

/** Counts the tool calls of one response. Replicas can return calls that the client cannot run. */
export class ToolCallCounts {
  readonly #offered: ReadonlySet<string>;
  /** The unfinished call of each choice. */
  readonly #open = new Map<number, OpenCall>();
  #total = 0;
  #invalid = 0;

  constructor(request: GenerationRequest) {
    this.#offered = new Set(toolsOf(request).map(({ name }) => name));
  }

  get total(): number {
    return this.#total;
  }

  /** Calls to functions that were not offered, or with arguments that are not the JSON text of an object. */
  get invalid(): number {
    return this.#invalid;
  }

  add(event: ToolEvent): void {
    switch (event.type) {
      case 'tool-call':
        this.#check(event.choice);
        this.#total++;
        this.#open.set(event.choice, { name: event.name, arguments: '' });
        return;
      case 'tool-arguments': {
        const call = this.#open.get(event.choice);
        if (call !== undefined && call.arguments.length <= MAX_CHECKED) call.arguments += event.text;
      }
    }
  }

  /** Checks the last call of a choice. The arguments of a response that was cut off may be incomplete. */
  finish(choice: number, reason: FinishReason): void {
    if (isCutOff(reason)) this.#open.delete(choice);
    else this.#check(choice);
  }

  #check(choice: number): void {
    const call = this.#open.get(choice);
    if (call === undefined) return;
    this.#open.delete(choice);
    if (!this.#offered.has(call.name) || !isObject(call.arguments)) this.#invalid++;
  }
}

function isObject(json: string): boolean {
  if (json.length > MAX_CHECKED) return true;
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
