import { ApiError } from '../../api/client.ts';
import type { GenerateCall } from '../../api/generate.ts';
import { generateFor } from '../../api/playground-key.ts';
import { afterEvent, faultOf, nothingOf, type Answer } from './answer.ts';
import type { Pricing } from './cost.ts';

/** What is asked for. */
interface Asked extends Pick<GenerateCall, 'endpoint' | 'body' | 'stream'> {
  /** Of the turn or completion that it will be. */
  id: string;
  accountId: string;
  model: string;
  pricing: Pricing | null;
}

interface Run {
  answer: Answer;
  stop: AbortController;
}

/**
 * The answers that are under way. They stand apart from the draft, so that a token draws the one answer it belongs to
 * and nothing else, and at most once in a frame of the screen.
 */
export class LiveAnswers {
  readonly #runs = new Map<string, Run>();
  readonly #listeners = new Set<() => void>();
  /** What has been told to the listeners; those of a frame are told together. */
  #told: ReadonlyMap<string, Answer> = new Map();
  #frame: number | null = null;

  /** The answer as it was last told; undefined: nothing of that id is under way. */
  read(id: string): Answer | undefined {
    return this.#told.get(id);
  }

  /** All that are under way, by their ids, as far as they have come. */
  underWay(): [id: string, answer: Answer][] {
    return [...this.#runs].map(([id, { answer }]) => [id, answer]);
  }

  /** How many are under way. */
  get count(): number {
    return this.#told.size;
  }

  /** Calls back after each change; the answer ends that. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Asks, and resolves with the answer when it has come to its end, whichever that was. Never rejects. */
  async run(asked: Asked): Promise<Answer> {
    const { id, accountId, model, pricing, ...call } = asked;
    const run: Run = { answer: nothingOf(model), stop: new AbortController() };
    this.#runs.set(id, run);
    this.#tell();
    const sentAt = performance.now();
    try {
      for await (const event of generateFor(accountId, { ...call, signal: run.stop.signal })) {
        run.answer = afterEvent(run.answer, event, pricing);
        this.#frame ??= requestAnimationFrame(() => this.#tell());
      }
    } catch (error) {
      run.answer = {
        ...run.answer,
        totalMs: run.answer.requestId === null ? null : performance.now() - sentAt,
        ...(run.stop.signal.aborted ? { stopped: true } : { fault: faultOf(asApiError(error)) }),
      };
    }
    return run.answer;
  }

  /** Lets go of an answer that has ended, once it stands elsewhere. */
  release(id: string): void {
    if (this.#runs.delete(id)) this.#tell();
  }

  /** Ends those that are under way; each keeps what has come. */
  stop(): void {
    for (const { stop } of this.#runs.values()) stop.abort();
  }

  #tell(): void {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    this.#told = new Map([...this.#runs].map(([id, { answer }]) => [id, answer]));
    for (const listener of this.#listeners) listener();
  }
}

function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError('This page failed to read the answer.', {
    status: 0,
    code: 'unreadable',
    cause: error,
  });
}
