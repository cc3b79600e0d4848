import { ApiError } from '../../api/client.ts';
import type { GenerateCall } from '../../api/generate.ts';
import { generateFor } from '../../api/playground-key.ts';
import { afterEvent, emptyAnswer, faultOf, type Answer, type Pricing } from './answer.ts';

/** A request to run. */
interface RunRequest extends Pick<GenerateCall, 'body' | 'stream'> {
  /** Id of the turn that shows the response. */
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
 * The responses in progress. They are kept outside the draft, so that a new token only re-renders its own response,
 * at most once per frame.
 */
export class LiveAnswers {
  readonly #runs = new Map<string, Run>();
  readonly #listeners = new Set<() => void>();
  /** The state that subscribers see; updated once per frame. */
  #published: ReadonlyMap<string, Answer> = new Map();
  #frame: number | null = null;

  /** Returns the last published state of a response; undefined: not in progress. */
  read(id: string): Answer | undefined {
    return this.#published.get(id);
  }

  /** Returns the responses in progress by id. */
  inProgress(): [id: string, answer: Answer][] {
    return [...this.#runs].map(([id, { answer }]) => [id, answer]);
  }

  /** Number of responses in progress. */
  get count(): number {
    return this.#published.size;
  }

  /** Calls the listener after each change. Returns a function that unsubscribes. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Sends a request and resolves with the response when it ends, even after an error. Never rejects. */
  async run(request: RunRequest): Promise<Answer> {
    const { id, accountId, model, pricing, ...call } = request;
    const run: Run = { answer: emptyAnswer(model), stop: new AbortController() };
    this.#runs.set(id, run);
    this.#publish();
    const sentAt = performance.now();
    try {
      for await (const event of generateFor(accountId, { ...call, signal: run.stop.signal })) {
        run.answer = afterEvent(run.answer, event, pricing);
        this.#frame ??= requestAnimationFrame(() => this.#publish());
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

  /** Removes a finished response, once it is stored in the draft. */
  release(id: string): void {
    if (this.#runs.delete(id)) this.#publish();
  }

  /** Stops all responses in progress. They keep the text received so far. */
  stop(): void {
    for (const { stop } of this.#runs.values()) stop.abort();
  }

  #publish(): void {
    if (this.#frame !== null) cancelAnimationFrame(this.#frame);
    this.#frame = null;
    this.#published = new Map([...this.#runs].map(([id, { answer }]) => [id, answer]));
    for (const listener of this.#listeners) listener();
  }
}

function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError('Could not read the response. Reload the page and try again.', {
    status: 0,
    code: 'unreadable',
    cause: error,
  });
}
