import { Deadline } from '../deadline.ts';
import type { Log } from '../log.ts';
import type { Engine, EngineDescription, EngineState } from './engine.ts';
import { HealthHistory, NOTHING_TOLD, type ReplicaReport } from './report.ts';

/** How often a replica is asked whether it is well, in milliseconds: more often while it is not. */
const WELL_MS = 5000;
const UNWELL_MS = 1000;

/** How long its answer may take, in milliseconds. */
const ANSWER_MS = 2000;

/**
 * A replica on a server that somebody else runs. It is asked for its health at intervals, so that `/readyz`
 * and the router know before a request finds out, and described once, when it first answers.
 */
export class RemoteReplica implements AsyncDisposable {
  readonly engine: Engine;
  readonly #log: Log;
  #state: EngineState = { state: 'loading', fraction: 0 };
  #description: EngineDescription | null = null;
  readonly #health = new HealthHistory();
  #next: NodeJS.Timeout | null = null;
  readonly #stop = new AbortController();

  constructor(engine: Engine, log: Log) {
    this.engine = engine;
    this.#log = log.with({ replica: engine.name });
  }

  state(): EngineState {
    return this.#state;
  }

  /** What operators are told of the replica. */
  report(): ReplicaReport {
    const { last: health, tokensPerSecond } = this.#health;
    return { ...NOTHING_TOLD, health, tokensPerSecond };
  }

  /** What the replica says of its model; null before it first answered. */
  get description(): EngineDescription | null {
    return this.#description;
  }

  /** Asks now, and from then on at intervals. Resolves after the first answer or failure. */
  async start(): Promise<void> {
    await this.#ask();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    if (this.#next) clearTimeout(this.#next);
    await this.engine[Symbol.asyncDispose]();
  }

  async #ask(): Promise<void> {
    const late = new AbortController();
    using _ = new Deadline(ANSWER_MS, () => late.abort(new Error(`no response within ${ANSWER_MS} ms`)));
    const signal = AbortSignal.any([this.#stop.signal, late.signal]);
    try {
      this.#health.note(await this.engine.health(signal));
      this.#description ??= await this.engine.describe(signal);
      if (this.#state.state !== 'ready') this.#log.info('replica is healthy');
      this.#state = { state: 'ready' };
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      this.#health.forget();
      if (this.#state.state !== 'down') {
        this.#log.warn('replica does not respond', { error: error instanceof Error ? error : String(error) });
      }
      this.#state = { state: 'down', reason: 'it does not respond', retryInMs: UNWELL_MS };
    }
    this.#next = setTimeout(() => void this.#ask(), this.#state.state === 'ready' ? WELL_MS : UNWELL_MS);
    this.#next.unref();
  }
}
