import { hash } from 'node:crypto';
import { ServiceError } from '../errors.ts';
import type { GenerationRequest } from '../generation.ts';
import type { Log } from '../log.ts';
import type { RequestIdentity } from './request-accounting.ts';

/** Engine crashes after which a request is refused. */
const MAX_CRASHES = 2;

/** How long a request is remembered after its last crash, in milliseconds. */
const REMEMBERED_MS = 600_000;

/** Maximum requests remembered; those with the oldest crash are removed first. */
const MAX_REMEMBERED = 1000;

/** A request that was running when its engine crashed. */
export interface CrashSuspect {
  /** The ID of the request during the last crash. */
  requestId: string;
  accountId: string;
  keyId: string;
  model: string;
  lastCrash: string;
  crashes: number;
  /** When the request is removed, in Unix milliseconds. */
  expiresAt: number;
}

/**
 * Requests that were running when an engine of this service crashed, or was killed because it was stuck. A request that
 * was running during two crashes is refused for 10 minutes: otherwise, its caller could repeatedly crash the engine,
 * and with it all other responses, without paying. A response that completes clears its request.
 *
 * Requests with the same model, input and generation parameters count as equal, regardless of the caller. If no engine
 * crashed in the last 10 minutes, checking a request is a single comparison.
 */
export class CrashSuspects {
  readonly #log: Log;
  readonly #now: () => number;
  /** By hash, oldest crash first. */
  readonly #suspects = new Map<string, CrashSuspect>();

  /** `now` in Unix milliseconds. */
  constructor(log: Log, now: () => number = Date.now) {
    this.#log = log;
    this.#now = now;
  }

  /** Throws `request_crashed_engine` for a request that was running during two crashes. */
  check(request: GenerationRequest): void {
    this.#expire();
    if (this.#suspects.size === 0) return;
    const suspect = this.#suspects.get(hashGeneration(request));
    if (suspect === undefined || suspect.crashes < MAX_CRASHES) return;
    const seconds = Math.ceil((suspect.expiresAt - this.#now()) / 1000);
    throw new ServiceError(
      'request_crashed_engine',
      `The engine of this model crashed ${suspect.crashes} times while this request was running. The request is refused for another ${seconds} s. Wait, or change the request.`,
    );
  }

  /** Whether `check` would throw. */
  refuses(request: GenerationRequest): boolean {
    this.#expire();
    const suspect = this.#suspects.get(hashGeneration(request));
    return suspect !== undefined && suspect.crashes >= MAX_CRASHES;
  }

  /** Records that the request was running during a crash. `crash` identifies the replica and its crash. */
  record(request: GenerationRequest, { requestId, caller }: RequestIdentity, crash: string): void {
    this.#expire();
    const key = hashGeneration(request);
    const known = this.#suspects.get(key);
    // Several equal requests may be running during one crash.
    const crashes = (known?.crashes ?? 0) + (known?.lastCrash === crash ? 0 : 1);
    const { model } = request;
    const { accountId, id: keyId } = caller;
    const expiresAt = this.#now() + REMEMBERED_MS;
    this.#suspects.delete(key);
    this.#suspects.set(key, { requestId, accountId, keyId, model, lastCrash: crash, crashes, expiresAt });
    const [oldest] = this.#suspects.keys();
    if (this.#suspects.size > MAX_REMEMBERED && oldest !== undefined) this.#suspects.delete(oldest);
    this.#log.error('engine crashed while running this request', {
      requestId,
      account: accountId,
      key: keyId,
      model,
      crash,
      crashes,
      refused: crashes >= MAX_CRASHES,
    });
  }

  /** Removes a request whose response completed. */
  clear(request: GenerationRequest): void {
    if (this.#suspects.size > 0) this.#suspects.delete(hashGeneration(request));
  }

  /** The requests that are refused now, oldest crash first. */
  get refused(): CrashSuspect[] {
    this.#expire();
    return [...this.#suspects.values()].filter(({ crashes }) => crashes >= MAX_CRASHES);
  }

  #expire(): void {
    for (const [key, { expiresAt }] of this.#suspects) {
      if (expiresAt > this.#now()) return;
      this.#suspects.delete(key);
    }
  }
}

/** Hashes the fields that determine the generation, without delivery options and the caller. */
function hashGeneration(request: GenerationRequest): string {
  const generation = {
    ...request,
    sampling: { ...request.sampling, logitBias: [...request.sampling.logitBias] },
    stream: undefined,
    includeUsage: undefined,
    continuousUsage: undefined,
    tokenIds: undefined,
    continuation: undefined,
    cacheScope: undefined,
    traceparent: undefined,
    user: undefined,
  };
  return hash('sha256', JSON.stringify(generation));
}
