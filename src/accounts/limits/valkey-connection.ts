import { setTimeout as sleep } from 'node:timers/promises';
import { createClient, ErrorReply } from '@redis/client';
import { Deadline } from '../../deadline.ts';
import type { Log } from '../../log.ts';
import type { Secret } from '../../secret.ts';
import type { Script } from './valkey-scripts.ts';

export interface ValkeyConnectionOptions {
  url: Secret;
  log: Log;
  timing: ValkeyTiming;
  /** A connection is there; it counts as up when this resolves. */
  onConnected: () => Promise<void>;
  /** A sign of life, whenever one is due; it must be answered within `timing.answerMs`. */
  onBeat: () => Promise<void>;
  /** It is gone; called once for each `onConnected`, before the commands under way reject. */
  onGone: () => void;
}

/** Milliseconds. */
export interface ValkeyTiming {
  beatMs: number;
  answerMs: number;
  /** For how long a copy is believed to be alive that says nothing. */
  leaseMs: number;
  retryMs: number;
}

/** The store does not answer, or answers that it cannot; its cause is what the driver said. */
export class StoreAwayError extends Error {
  constructor(cause?: unknown) {
    super('the store of limits does not answer', { cause });
    this.name = 'StoreAwayError';
  }
}

type Client = ReturnType<typeof connect>;

/**
 * One connection that is made anew whenever it breaks. No command waits for it: one that cannot be sent, or is not
 * answered, rejects with a `StoreAwayError`, and so do all behind it. Commands are answered in order, so the sign of
 * life watches over all of them without a timer for each.
 */
export class ValkeyConnection implements AsyncDisposable {
  readonly #options: ValkeyConnectionOptions;
  #client: Client | null = null;
  /** Why the last one was given up. */
  #reason: Error | null = null;
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;
  /** Resolves at the first end of a connecting, good or bad. */
  readonly tried: Promise<void>;

  /** Throws a `TypeError` for an address that is none. */
  constructor(options: ValkeyConnectionOptions) {
    this.#options = options;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.tried = promise;
    this.#running = this.#run(connect(options.url, options.timing.answerMs), resolve);
  }

  /** Whether commands can be sent. */
  get open(): boolean {
    return this.#client !== null;
  }

  /** Has the store keep the scripts. Rejects with a `StoreAwayError`. */
  async load(scripts: readonly Script[]): Promise<void> {
    await Promise.all(scripts.map(({ text }) => this.#send(['SCRIPT', 'LOAD', text])));
  }

  /** Runs a script. Rejects with a `StoreAwayError`. */
  async evaluate(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args];
    const answer = await this.#send(['EVALSHA', script.sha, ...rest]);
    // Somebody has flushed the scripts.
    return answer === NO_SCRIPT ? this.#send(['EVAL', script.text, ...rest]) : answer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    if (this.#client) this.#drop(this.#client, null);
    await this.#running;
  }

  async #send(command: string[]): Promise<unknown> {
    const client = this.#client;
    if (client === null) throw new StoreAwayError();
    try {
      return await client.sendCommand(command);
    } catch (error) {
      if (error instanceof ErrorReply && error.message.startsWith('NOSCRIPT')) return NO_SCRIPT;
      this.#drop(client, error);
      throw new StoreAwayError(error);
    }
  }

  async #run(first: Client, tried: () => void): Promise<void> {
    const { url, timing, log } = this.#options;
    const { signal } = this.#ending;
    let failing = false;
    for (let client = first; !signal.aborted; client = connect(url, timing.answerMs)) {
      try {
        await within(2 * timing.answerMs, client.connect());
        if (signal.aborted) {
          client.destroy();
          break;
        }
        this.#client = client;
        const gone = new Promise<void>((resolve) => client.once('error', resolve).once('end', resolve));
        await within(timing.answerMs, this.#options.onConnected());
        if (failing) log.info('the store of limits answers again');
        failing = false;
        tried();
        await this.#watch(client, gone);
      } catch (error) {
        this.#drop(client, null);
        if (!failing && !signal.aborted) {
          log.warn('the store of limits does not answer', { error: error as Error });
        }
        failing = true;
        tried();
      }
      // Not all at once: copies that lost the store together come back spread over time.
      await sleep(timing.retryMs * (0.5 + Math.random()), undefined, { signal, ref: false }).catch(() => {});
    }
  }

  /** Sends signs of life until the connection is gone; rejects with the reason. */
  async #watch(client: Client, gone: Promise<void>): Promise<void> {
    const { timing, onBeat } = this.#options;
    while (this.#client === client) {
      const pause = new AbortController();
      const { signal } = pause;
      await Promise.race([sleep(timing.beatMs, undefined, { signal, ref: false }), gone]);
      pause.abort();
      if (this.#client !== client) break;
      await within(timing.answerMs, onBeat());
    }
    if (!this.#ending.signal.aborted) throw this.#reason ?? new StoreAwayError();
  }

  #drop(client: Client, reason: unknown): void {
    if (this.#client === client) {
      this.#client = null;
      this.#reason = reason instanceof Error ? reason : null;
      this.#options.onGone();
    }
    if (client.isOpen) client.destroy();
  }
}

const NO_SCRIPT = Symbol('NOSCRIPT');

function connect(url: Secret, answerMs: number) {
  // The driver's own error has the address in it, and so perhaps a password.
  if (!/^rediss?:$/.test(URL.parse(url.reveal())?.protocol ?? '')) {
    throw new TypeError('expected an address such as redis://host:6379 or rediss://:password@host:6379/0');
  }
  const client = createClient({
    url: url.reveal(),
    disableOfflineQueue: true,
    maintNotifications: 'disabled',
    // A timer for each command would cost as much as the command; the sign of life stands for all.
    commandOptions: { timeout: 0 },
    socket: { connectTimeout: answerMs, reconnectStrategy: false },
  });
  // Without a listener an error event ends the process; what it says also rejects what waits for it.
  client.on('error', () => {});
  return client;
}

/** Rejects where the promise does not resolve in time. */
async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  using _ = new Deadline(ms, () => late.reject(new Error(`no response within ${ms} ms`)));
  return await Promise.race([promise, late.promise]);
}
