import type { Denial, RateLimitHeaders } from '../accounts/limits/limiter.ts';
import type { RunningCounts } from '../accounts/ledger/ledger.ts';
import {
  countTokens,
  NO_USAGE,
  type FinishReason,
  type TextEvent,
  type Tool,
  type ToolEvent,
  type Usage,
  type UsageSource,
  isCutOff,
  toolsOf,
  type GenerationRequest,
  type GenerationEvent,
  type PrefillEvent,
} from '../core/generation.ts';
import { Notes } from '../core/notes.ts';

/** The progress and result of one generation. Times in `…Ms` are monotonic, the others Unix milliseconds. */
export class GenerationRecord implements Required<RunningCounts> {
  readonly startedAt = Date.now();
  readonly startedAtMs = performance.now();
  /** What of the request has no effect. */
  readonly notes: Notes;
  /** When the request got a slot, or was sent to a server that does not report slots. */
  slotAtMs: number | null = null;
  firstTokenAtMs: number | null = null;
  endedAtMs: number | null = null;
  replica: string | null = null;
  /** Whether the replica reports how much of the prompt it has computed. */
  #reportsPrefill = false;
  /** Tokens of the whole prompt. Until the first token, `usage` has those that were computed, if this is reported. */
  #promptTokens = 0;
  /** Replicas that it was sent to, including those that refused it or failed. */
  attempts = 0;
  /**
   * Completion tokens that the caller had received when the response was last continued by another replica; null: it
   * was not continued.
   */
  continuedAfter: number | null = null;
  /** How often another replica continued the response. */
  continuations = 0;
  usage: Usage = { ...NO_USAGE };
  usageSource: UsageSource | null = null;
  /** Of the choice that finished last; null: not completed. */
  finishReason: FinishReason | null = null;
  /** Null until the generation begins. */
  toolCalls: ToolCallCounts | null = null;
  /** Whether its ledger row is on disk. No response may be sent before. */
  isRowWritten = false;
  /** The header `traceparent` for replicas; null: not traced. */
  traceparent: string | null = null;
  /** The limit that denied the request; null: none. */
  deniedBy: Pick<Denial, 'limit' | 'scope' | 'model'> | null = null;
  /** Amount charged to the caller, in pico-dollars. Set when the row is settled. */
  costPico = 0n;
  /** The `x-ratelimit-*` headers, after admission. */
  limitHeaders: RateLimitHeaders = [];

  constructor(notes = new Notes()) {
    this.notes = notes;
  }

  get slotAt(): number | null {
    return this.#unix(this.slotAtMs);
  }

  get firstTokenAt(): number | null {
    return this.#unix(this.firstTokenAtMs);
  }

  get endedAt(): number | null {
    return this.#unix(this.endedAtMs);
  }

  /** Starts an attempt on a replica. `reportsPrefill`: whether it reports how much of the prompt it has computed. */
  attempt(replica: string, reportsPrefill: boolean): void {
    this.replica = replica;
    this.#reportsPrefill = reportsPrefill;
    this.attempts++;
  }

  /**
   * Resets the counts of an attempt that has failed without output, so that a caller who disconnects before the next one
   * pays nothing.
   */
  attemptFailed(): void {
    this.slotAtMs = null;
    this.#promptTokens = 0;
    this.usage = { ...NO_USAGE };
    this.usageSource = null;
  }

  /** Continues the response on another replica, and keeps the counts. */
  continueOn(replica: string): void {
    this.replica = replica;
    this.attempts++;
    this.continuedAfter = this.usage.completionTokens;
    this.continuations++;
  }

  /** Records that the request was sent to a server that does not report slots. */
  sent(promptTokens: number): void {
    this.slotAtMs = performance.now();
    this.#promptTokens = promptTokens;
    this.usage = { ...NO_USAGE, promptTokens };
    this.usageSource = 'estimated';
  }

  /** Records how much of the prompt was computed. */
  prefilled({ promptTokens, doneTokens, cachedTokens }: PrefillEvent): void {
    this.#promptTokens = promptTokens;
    this.usage.promptTokens = doneTokens;
    this.usage.cachedTokens = cachedTokens ?? this.usage.cachedTokens;
    this.usageSource = 'engine';
  }

  /**
   * Updates the record from an event. `promptTokens` returns an estimate, which is used until the engine reports a
   * count.
   */
  update(event: GenerationEvent, promptTokens: () => number): void {
    switch (event.type) {
      case 'started':
        this.slotAtMs ??= performance.now();
        this.usageSource = event.promptTokens === null ? 'estimated' : 'engine';
        this.#promptTokens = event.promptTokens ?? promptTokens();
        this.usage.cachedTokens = event.cachedTokens ?? 0;
        // A client that disconnects pays for what was computed, and nothing was yet.
        this.usage.promptTokens = this.#reportsPrefill ? this.usage.cachedTokens : this.#promptTokens;
        return;
      case 'token':
      case 'reasoning':
        this.#countTokens(event);
        return;
      case 'tool-call':
      case 'tool-arguments':
        this.#countTokens(event);
        this.toolCalls?.add(event);
        return;
      case 'embedding':
      case 'score':
        return;
      case 'finish':
        this.usage.promptTokens = this.#promptTokens;
        this.finishReason = event.reason;
        this.toolCalls?.finish(event.choice, event.reason);
        return;
      case 'end':
        // The prompt counts once, as in the first attempt.
        this.usage =
          this.continuedAfter === null
            ? event.usage
            : {
                ...event.usage,
                promptTokens: this.usage.promptTokens,
                cachedTokens: this.usage.cachedTokens,
              };
        this.usageSource = event.usageSource;
    }
  }

  #countTokens(event: TextEvent | ToolEvent): void {
    if (this.firstTokenAtMs === null) {
      this.firstTokenAtMs = performance.now();
      this.usage.promptTokens = this.#promptTokens;
    }
    countTokens(this.usage, event);
  }

  #unix(atMs: number | null): number | null {
    return atMs === null ? null : Math.round(this.startedAt + atMs - this.startedAtMs);
  }
}

/** Maximum length of arguments that are checked, in characters. Longer ones count as valid. */
const MAX_CHECKED = 1_048_576;

interface OpenCall {
  name: string;
  arguments: string;
}

/** Counts the tool calls of one response. Replicas can return calls that the client cannot run. */
export class ToolCallCounts {
  readonly #offered: readonly Tool[];
  /** The unfinished call of each choice; null: there were no calls. */
  #open: Map<number, OpenCall> | null = null;
  #total = 0;
  #invalid = 0;

  constructor(request: GenerationRequest) {
    this.#offered = toolsOf(request);
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
        (this.#open ??= new Map()).set(event.choice, { name: event.name, arguments: '' });
        return;
      case 'tool-arguments': {
        const call = this.#open?.get(event.choice);
        if (call !== undefined && call.arguments.length <= MAX_CHECKED) call.arguments += event.text;
      }
    }
  }

  /** Checks the last call of a choice. The arguments of a response that was cut off may be incomplete. */
  finish(choice: number, reason: FinishReason): void {
    if (isCutOff(reason)) this.#open?.delete(choice);
    else this.#check(choice);
  }

  #check(choice: number): void {
    const call = this.#open?.get(choice);
    if (call === undefined) return;
    this.#open?.delete(choice);
    if (!this.#offered.some(({ name }) => name === call.name) || !isObject(call.arguments)) this.#invalid++;
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
