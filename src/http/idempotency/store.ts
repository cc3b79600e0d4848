import { randomUUID } from 'node:crypto';
import type { ConfigFile, Config } from '../../config/schema.ts';
import { ServiceError } from '../../core/errors.ts';
import type { Ledger } from '../../accounts/ledger/ledger.ts';
import type { Log } from '../../support/log.ts';
import type { Secret } from '../../support/secret.ts';
import type { RunningGenerations } from '../running-generations.ts';
import { KeyedGeneration, type ResponseMemory } from './keyed-generation.ts';
import type { IdempotencyClaims } from './valkey-claims.ts';

/** Share of `idempotency.maxBytes` that the responses of one account may use. */
const ACCOUNT_SHARE = 1 / 4;

/** Memory that the responses of one account may use if its share is smaller, in bytes. */
const MIN_ACCOUNT_BYTES = 65_536;

interface AccountResponses {
  bytes: number;
  /** Oldest first. */
  readonly kept: Set<KeyedGeneration>;
}

export interface IdempotencyStoreOptions {
  settings: ConfigFile['idempotency'];
  stream: ConfigFile['stream'];
  /** The claims of all instances; null: there is only this instance. */
  claims: IdempotencyClaims | null;
  /** Called when a running generation has no readers and waits for a repeated request. */
  onWaiting: (requestId: string) => void;
  /** Called when no reader has received the whole response of this request. */
  onUndelivered: (requestId: string) => void;
}

/**
 * The generations of this instance that have an idempotency key: those that run, and those that ended within the last
 * `idempotency.keepMs`. Their responses use at most `idempotency.maxBytes` of memory, and those of one account at most
 * a share of it. To make room, the responses that ended first are discarded, except while they are being sent.
 */
export class IdempotencyStore implements ResponseMemory, AsyncDisposable {
  readonly #options: IdempotencyStoreOptions;
  readonly #generations = new Map<string, KeyedGeneration>();
  /** When each kept generation ended, on the monotonic clock; oldest first. */
  readonly #kept = new Map<KeyedGeneration, number>();
  /** By ID; only accounts with responses. */
  readonly #accounts = new Map<string, AccountResponses>();
  readonly #maxAccountBytes: number;
  #bytes = 0;
  #expiry: NodeJS.Timeout | undefined;
  #stopping = false;

  constructor(options: IdempotencyStoreOptions) {
    this.#options = options;
    this.#maxAccountBytes = Math.max(options.settings.maxBytes * ACCOUNT_SHARE, MIN_ACCOUNT_BYTES);
  }

  /** Returns the running or kept generation of this key; null: the key is free on this instance. */
  find(accountId: string, key: string): KeyedGeneration | null {
    return this.#generations.get(idOf(accountId, key)) ?? null;
  }

  /** Adds a generation with a key that is free on this instance. */
  begin(accountId: string, key: string, fingerprint: string, requestId: string): KeyedGeneration {
    const { settings, stream, onWaiting, onUndelivered } = this.#options;
    const generation = new KeyedGeneration({
      accountId,
      id: idOf(accountId, key),
      fingerprint,
      requestId,
      memory: this,
      stream,
      graceMs: () => (this.#stopping ? 0 : settings.graceMs),
      onWaiting,
      onAbandoned: (abandoned) => this.#remove(abandoned),
      onUndelivered,
    });
    this.#generations.set(generation.id, generation);
    return generation;
  }

  /**
   * Claims the key of a new generation among all instances. Resolves with a `ServiceError` `idempotency_in_flight` or
   * `idempotency_key_reused` if another instance has claimed it; null: this instance has it.
   */
  async claim(generation: KeyedGeneration): Promise<ServiceError | null> {
    const other = (await this.#options.claims?.claim(generation)) ?? null;
    if (other === null) return null;
    return other.fingerprint === generation.fingerprint ? inFlightElsewhere(other.running) : keyReused();
  }

  /** Keeps the response of a generation that has ended, or frees its key. */
  finish(generation: KeyedGeneration, keep: boolean): void {
    const { keepMs } = this.#options.settings;
    const isCurrent = this.#generations.get(generation.id) === generation;
    if (!keep || keepMs === 0 || !generation.shared || !isCurrent) {
      this.#remove(generation);
      return;
    }
    this.#kept.set(generation, performance.now());
    this.#accounts.get(generation.accountId)?.kept.add(generation);
    this.#options.claims?.keep(generation, keepMs);
    this.#scheduleExpiry();
  }

  reserve(accountId: string, bytes: number): boolean {
    const fitsAccount = () => this.#bytesOf(accountId) + bytes <= this.#maxAccountBytes;
    const fits = () => this.#bytes + bytes <= this.#options.settings.maxBytes;
    if (bytes > this.#maxAccountBytes) return false;
    this.#makeRoom(this.#accounts.get(accountId)?.kept ?? [], fitsAccount);
    if (!fitsAccount()) return false;
    this.#makeRoom(this.#kept.keys(), fits);
    if (!fits()) return false;
    this.add(accountId, bytes);
    return true;
  }

  add(accountId: string, bytes: number): void {
    const account = this.#accounts.getOrInsertComputed(accountId, () => ({ bytes: 0, kept: new Set() }));
    account.bytes += bytes;
    this.#bytes += bytes;
  }

  release(accountId: string, bytes: number): void {
    const account = this.#accounts.get(accountId);
    if (account === undefined) return;
    account.bytes -= bytes;
    this.#bytes -= bytes;
    if (account.bytes === 0) this.#accounts.delete(accountId);
  }

  /**
   * Aborts generations without readers, and from now on also those that lose their last reader, because no request can
   * join them anymore.
   */
  stop(): void {
    this.#stopping = true;
    for (const generation of this.#generations.values()) {
      if (!generation.hasReaders) generation.abandon();
    }
  }

  /** Stops, and releases the claims of this instance. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.stop();
    clearTimeout(this.#expiry);
    await this.#options.claims?.[Symbol.asyncDispose]();
  }

  #bytesOf(accountId: string): number {
    return this.#accounts.get(accountId)?.bytes ?? 0;
  }

  /** Discards kept responses that are not being sent, until `isEnough` returns true. */
  #makeRoom(kept: Iterable<KeyedGeneration>, isEnough: () => boolean): void {
    for (const generation of kept) {
      if (isEnough()) return;
      if (!generation.hasReaders) this.#remove(generation);
    }
  }

  /** Frees the key of a generation, and its memory when it has no readers. Idempotent. */
  #remove(generation: KeyedGeneration): void {
    const { id } = generation;
    if (this.#generations.get(id) === generation) this.#generations.delete(id);
    this.#kept.delete(generation);
    this.#accounts.get(generation.accountId)?.kept.delete(generation);
    this.#options.claims?.release(generation);
    generation.discard();
  }

  /** Schedules the expiry of the generation that ended first. All are kept for the same time. */
  #scheduleExpiry(): void {
    if (this.#expiry !== undefined) return;
    const [oldest] = this.#kept.values();
    if (oldest === undefined) return;
    // Time passes between two generations that end together.
    const waitMs = Math.max(0, oldest + this.#options.settings.keepMs - performance.now());
    this.#expiry = setTimeout(() => this.#expire(), waitMs).unref();
  }

  #expire(): void {
    this.#expiry = undefined;
    const until = performance.now() - this.#options.settings.keepMs;
    for (const [generation, endedAt] of this.#kept) {
      if (endedAt > until) break;
      this.#remove(generation);
    }
    this.#scheduleExpiry();
  }
}

/** Account IDs have no line breaks. */
function idOf(accountId: string, key: string): string {
  return `${accountId}\n${key}`;
}

/** Returns the error for a key that was used with another request. */
export function keyReused(): ServiceError {
  return new ServiceError(
    'idempotency_key_reused',
    'This `Idempotency-Key` was used with another endpoint or request body. Send a new key with each new request.',
  );
}

/** Returns the error for a key whose request is running on this instance, with a response that is too large to be shared. */
export function tooLargeToShare(): ServiceError {
  return new ServiceError(
    'idempotency_in_flight',
    'The request with this `Idempotency-Key` is running, and its response is too large to be shared. Try again when it has ended.',
    { retryAfterMs: 1000 },
  );
}

function inFlightElsewhere(running: boolean): ServiceError {
  return running
    ? new ServiceError(
        'idempotency_in_flight',
        'The request with this `Idempotency-Key` is running on another instance of the service. Try again later.',
        { retryAfterMs: 1000 },
      )
    : new ServiceError(
        'idempotency_in_flight',
        'The request with this `Idempotency-Key` has ended on another instance of the service, and only that instance can send its response again.',
      );
}

interface Dependencies {
  config: Config;
  generations: RunningGenerations;
  ledger: Ledger;
  log: Log;
}

/** Opens the store of generations with an idempotency key, with claims in Valkey or Redis if it is configured. */
export async function openIdempotency(dependencies: Dependencies): Promise<IdempotencyStore> {
  const { config, generations, ledger, log } = dependencies;
  const store = new IdempotencyStore({
    settings: config.file.idempotency,
    stream: config.file.stream,
    claims: config.valkeyUrl === null ? null : await openClaims(config.valkeyUrl, log),
    onWaiting: (requestId) => log.info('client disconnected, waiting for a repeated request', { requestId }),
    onUndelivered: (requestId) => ledger.undelivered(requestId),
  });
  generations.onDraining = () => store.stop();
  return store;
}

async function openClaims(url: Secret, log: Log): Promise<IdempotencyClaims> {
  const { ValkeyClaims } = await import('./valkey-claims.ts');
  return await ValkeyClaims.open({ url, log, instanceId: randomUUID() });
}
