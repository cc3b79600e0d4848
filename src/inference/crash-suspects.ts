import { hash } from 'node:crypto';
import { ServiceError } from '../core/errors.ts';
import { asChat, hasImages, imagesOfMessage, type GenerationRequest } from '../core/generation.ts';
import type { Log } from '../support/log.ts';
import type { RequestIdentity } from './request-accounting.ts';

/** Engine crashes after which a request is refused. */
const MAX_CRASHES = 2;

/** Share of engine crashes after which the requests of an account are refused. */
const MAX_SHARE = 4;

/** How long requests and crashes are remembered, in milliseconds. */
const REMEMBERED_MS = 600_000;

/** Maximum requests, accounts and crashes remembered; those with the oldest crash are removed first. */
const MAX_REMEMBERED = 1000;

/** A request that was running when its engine crashed, or the last such request of an account. */
export interface CrashSuspect {
  /** The ID of the request during the last crash. */
  requestId: string;
  accountId: string;
  keyId: string;
  model: string;
  lastCrash: string;
  /** Crashes during which the request, or requests of the account, were running. */
  crashes: number;
  /** When the request is removed, in Unix milliseconds. */
  expiresAt: number;
}

/** An account with requests for a model that were running during crashes. */
interface AccountSuspect {
  /** The last of these requests, with the number of all crashes. */
  last: CrashSuspect;
  crashes: ReadonlySet<string>;
  /** When it is removed, in Unix milliseconds. */
  expiresAt: number;
}

/** The accounts with requests that were running during a crash. */
interface Crash {
  accounts: Set<string>;
  /** When it is removed, in Unix milliseconds. */
  expiresAt: number;
}

/**
 * Requests that were running when an engine of this service crashed, or was killed because it was stuck. A request that
 * was running during two crashes is refused for 10 minutes: otherwise, its caller could repeatedly crash the engine,
 * and with it all other responses, without paying. A response that completes clears its request.
 *
 * Requests with the same model, input and generation parameters count as equal, regardless of the caller. A caller can
 * evade this by changing a character. Therefore, the accounts whose requests were running during a crash share it
 * equally, and all requests of an account for the model are refused while its shares add up to four crashes.
 *
 * If no engine crashed in the last 10 minutes, checking a request is a single comparison.
 */
export class CrashSuspects {
  readonly #log: Log;
  readonly #now: () => number;
  /** By hash, oldest crash first. */
  readonly #suspects = new Map<string, CrashSuspect>();
  /** By account and model, oldest crash first. */
  readonly #accounts = new Map<string, AccountSuspect>();
  /** By name, oldest first. */
  readonly #crashes = new Map<string, Crash>();

  /** `now` in Unix milliseconds. */
  constructor(log: Log, now: () => number = Date.now) {
    this.#log = log;
    this.#now = now;
  }

  /** Throws `request_crashed_engine` for a request that is refused. */
  check(request: GenerationRequest, accountId: string): void {
    this.#expire();
    if (this.#crashes.size === 0) return;
    const suspect = this.#suspects.get(hashGeneration(request));
    const account = this.#accounts.get(accountKey(accountId, request.model));
    if (suspect !== undefined && suspect.crashes >= MAX_CRASHES)
      throw this.#refusal(suspect, 'this request was', 'The request is');
    if (account !== undefined && this.#shareOf(account) >= MAX_SHARE)
      throw this.#refusal(account.last, 'requests of this account were', 'Its requests for this model are');
  }

  #refusal({ crashes, expiresAt }: CrashSuspect, running: string, refused: string): ServiceError {
    const seconds = Math.ceil((expiresAt - this.#now()) / 1000);
    return new ServiceError(
      'request_crashed_engine',
      `The engine of this model crashed ${crashes} times while ${running} running. ${refused} refused for another ${seconds} s. Wait, or change the request.`,
    );
  }

  /** Whether `check` would throw because of the request itself. */
  refuses(request: GenerationRequest): boolean {
    this.#expire();
    const suspect = this.#suspects.get(hashGeneration(request));
    return suspect !== undefined && suspect.crashes >= MAX_CRASHES;
  }

  /** Records that the request was running during a crash. `crash` identifies the replica and its crash. */
  record(request: GenerationRequest, { requestId, caller }: RequestIdentity, crash: string): void {
    this.#expire();
    const { model } = request;
    const { accountId, id: keyId } = caller;
    const expiresAt = this.#now() + REMEMBERED_MS;
    const key = hashGeneration(request);
    const known = this.#suspects.get(key);
    // Several equal requests may be running during one crash.
    const crashes = (known?.crashes ?? 0) + (known?.lastCrash === crash ? 0 : 1);
    const suspect = { requestId, accountId, keyId, model, lastCrash: crash, crashes, expiresAt };
    remember(this.#suspects, key, suspect);
    const accounts = this.#crashes.get(crash)?.accounts ?? new Set();
    remember(this.#crashes, crash, { accounts: accounts.add(accountId), expiresAt });
    const account = accountKey(accountId, model);
    // Crashes that have expired no longer count.
    const earlier = [...(this.#accounts.get(account)?.crashes ?? [])].filter((name) =>
      this.#crashes.has(name),
    );
    const all = new Set([...earlier, crash]);
    remember(this.#accounts, account, { last: { ...suspect, crashes: all.size }, crashes: all, expiresAt });
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

  /** Returns the share of an account in the crashes that are remembered. */
  #shareOf(account: AccountSuspect): number {
    let share = 0;
    for (const crash of account.crashes) share += 1 / (this.#crashes.get(crash)?.accounts.size ?? Infinity);
    return share;
  }

  /** Removes a request whose response completed. */
  clear(request: GenerationRequest): void {
    if (this.#suspects.size > 0) this.#suspects.delete(hashGeneration(request));
  }

  /** The requests that are refused now, and the last requests of accounts that are refused. Oldest crash first. */
  get refused(): CrashSuspect[] {
    this.#expire();
    const requests = [...this.#suspects.values()].filter(({ crashes }) => crashes >= MAX_CRASHES);
    const listed = new Set(requests.map(({ requestId }) => requestId));
    const accounts = [...this.#accounts.values()].filter(
      (account) => this.#shareOf(account) >= MAX_SHARE && !listed.has(account.last.requestId),
    );
    return [...requests, ...accounts.map(({ last }) => last)];
  }

  #expire(): void {
    for (const remembered of [this.#suspects, this.#accounts, this.#crashes]) {
      for (const [key, { expiresAt }] of remembered) {
        if (expiresAt > this.#now()) break;
        remembered.delete(key);
      }
    }
  }
}

/** Adds an entry as the newest one, and removes the oldest if there are too many. */
function remember<Value>(map: Map<string, Value>, key: string, value: Value): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > MAX_REMEMBERED && oldest !== undefined) map.delete(oldest);
}

function accountKey(accountId: string, model: string): string {
  return `${accountId} ${model}`;
}

/** Hashes the fields that determine the generation, without delivery options and the caller. */
function hashGeneration(request: GenerationRequest): string {
  const generation = {
    ...withoutUrls(request),
    sampling: { ...request.sampling, logitBias: [...request.sampling.logitBias] },
    stream: undefined,
    includeUsage: undefined,
    tokenIds: undefined,
    continuation: undefined,
    cacheScope: undefined,
    traceparent: undefined,
    user: undefined,
  };
  return hash('sha256', JSON.stringify(generation));
}

/** Returns the request without the URLs of its images, which can be large. Their digests are left. */
function withoutUrls(request: GenerationRequest): object {
  if (!hasImages(request)) return request;
  const messages = asChat(request)?.messages.map((message) => {
    const images = imagesOfMessage(message).map((image) => ({ ...image, url: '' }));
    return images.length === 0 ? message : { ...message, images };
  });
  return { ...request, messages };
}
