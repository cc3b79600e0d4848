import { setTimeout as sleep } from 'node:timers/promises';
import { ErrorReply, RedisClient } from '@redis/client';
import { within } from '../../support/deadline.ts';
import type { Log } from '../../support/log.ts';
import type { Secret } from '../../support/secret.ts';
import type { Script } from './valkey-scripts.ts';

export interface ValkeyConnectionOptions {
  url: Secret;
  log: Log;
  /** Name of the store in the log, such as `limit store`. */
  name: string;
  timing: ValkeyTiming;
  /** Called after connecting; the connection is usable when it resolves. */
  onConnected: () => Promise<void>;
  /** Sends a heartbeat; must resolve within `timing.responseMs`. */
  onHeartbeat: () => Promise<void>;
  /** Called once for each `onConnected`, before pending commands reject. */
  onDisconnected: () => void;
}

/** Milliseconds. */
export interface ValkeyTiming {
  heartbeatMs: number;
  responseMs: number;
  /** How long an instance counts as alive without a heartbeat. */
  leaseMs: number;
  retryMs: number;
}

/** The store is disconnected, does not respond, or responds with an error; the `cause` is the driver's error. */
export class StoreUnavailableError extends Error {
  constructor(cause?: unknown) {
    super('the store does not respond', { cause });
    this.name = 'StoreUnavailableError';
  }
}

type Client = ReturnType<typeof connect>;

/**
 * One connection that reconnects when it breaks. Commands do not wait for the reconnect: a command that cannot be sent
 * or gets no response rejects with a `StoreUnavailableError`, as do all commands sent after it. Responses arrive in
 * order, so the heartbeat detects a stalled connection without a timer per command.
 */
export class ValkeyConnection implements AsyncDisposable {
  readonly #options: ValkeyConnectionOptions;
  #client: Client | null = null;
  /** Why the last connection was closed. */
  #reason: Error | null = null;
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;
  /** Resolves when the first connection attempt has succeeded or failed. */
  readonly tried: Promise<void>;

  /** Throws a `TypeError` for an invalid URL. */
  constructor(options: ValkeyConnectionOptions) {
    this.#options = options;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.tried = promise;
    this.#running = this.#run(connect(options.url, options.timing.responseMs), resolve);
  }

  /** Whether commands can be sent. */
  get open(): boolean {
    return this.#client !== null;
  }

  /** Loads the scripts into the store. Rejects with a `StoreUnavailableError`. */
  async load(scripts: readonly Script[]): Promise<void> {
    await Promise.all(scripts.map(({ text }) => this.#send(['SCRIPT', 'LOAD', text])));
  }

  /** Runs a script, and sends it again if the scripts were flushed. Rejects with a `StoreUnavailableError`. */
  async evaluate(script: Script, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args];
    const result = await this.#send(['EVALSHA', script.sha, ...rest]);
    return result === NO_SCRIPT ? this.#send(['EVAL', script.text, ...rest]) : result;
  }

  /**
   * Runs a script without sending it again, because it must not run after later commands. Resolves with false if the
   * scripts were flushed. Rejects with a `StoreUnavailableError`.
   */
  async evaluateInOrder(script: Script, keys: readonly string[], args: readonly string[]): Promise<boolean> {
    const result = await this.#send(['EVALSHA', script.sha, String(keys.length), ...keys, ...args]);
    return result !== NO_SCRIPT;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    if (this.#client) this.#drop(this.#client, null);
    await this.#running;
  }

  async #send(command: string[]): Promise<unknown> {
    const client = this.#client;
    if (client === null) throw new StoreUnavailableError();
    try {
      return await client.sendCommand(command);
    } catch (error) {
      if (error instanceof ErrorReply && error.message.startsWith('NOSCRIPT')) return NO_SCRIPT;
      this.#drop(client, error);
      throw new StoreUnavailableError(error);
    }
  }

  async #run(first: Client, tried: () => void): Promise<void> {
    const { url, timing, log, name } = this.#options;
    const { signal } = this.#ending;
    let failing = false;
    for (let client = first; !signal.aborted; client = connect(url, timing.responseMs)) {
      try {
        await within(2 * timing.responseMs, client.connect());
        if (signal.aborted) {
          client.destroy();
          break;
        }
        this.#client = client;
        const closed = new Promise<void>((resolve) => client.once('error', resolve).once('end', resolve));
        await within(timing.responseMs, this.#options.onConnected());
        if (failing) log.info(`the ${name} responds again`);
        failing = false;
        tried();
        await this.#watch(client, closed);
      } catch (error) {
        this.#drop(client, null);
        if (!failing && !signal.aborted) {
          log.warn(`the ${name} does not respond`, { error: error as Error });
        }
        failing = true;
        tried();
      }
      // Random, so that instances that were disconnected at the same time do not reconnect at the same time.
      await sleep(timing.retryMs * (0.5 + Math.random()), undefined, { signal, ref: false }).catch(() => {});
    }
  }

  /** Sends heartbeats until the connection breaks; rejects with the reason. */
  async #watch(client: Client, closed: Promise<void>): Promise<void> {
    const { timing, onHeartbeat } = this.#options;
    while (this.#client === client) {
      const pause = new AbortController();
      const { signal } = pause;
      await Promise.race([sleep(timing.heartbeatMs, undefined, { signal, ref: false }), closed]);
      pause.abort();
      if (this.#client !== client) break;
      await within(timing.responseMs, onHeartbeat());
    }
    if (!this.#ending.signal.aborted) throw this.#reason ?? new StoreUnavailableError();
  }

  #drop(client: Client, reason: unknown): void {
    if (this.#client === client) {
      this.#client = null;
      this.#reason = reason instanceof Error ? reason : null;
      this.#options.onDisconnected();
    }
    if (client.isOpen) client.destroy();
  }
}

const NO_SCRIPT = Symbol('NOSCRIPT');

function connect(url: Secret, responseMs: number) {
  // The driver's error would contain the URL, and possibly a password.
  if (!/^rediss?:$/.test(URL.parse(url.reveal())?.protocol ?? '')) {
    throw new TypeError('expected a URL such as redis://host:6379 or rediss://:password@host:6379/0');
  }
  // `createClient` takes 30 ms of CPU time for each new URL, because it builds a class.
  const client = RedisClient.factory()({
    url: url.reveal(),
    disableOfflineQueue: true,
    maintNotifications: 'disabled',
    // A timer per command would cost as much as the command; the heartbeat detects stalls instead.
    commandOptions: { timeout: 0 },
    socket: { connectTimeout: responseMs, reconnectStrategy: false },
  });
  // Without a listener an error event ends the process. Pending commands reject with the same error.
  client.on('error', () => {});
  return client;
}
