import { ServiceError } from '../../core/errors.ts';
import type { Log } from '../../support/log.ts';
import type { Secret } from '../../support/secret.ts';
import { amountsOf, usedAmounts, type Amounts } from './counts.ts';
import { denialOf } from './denial.ts';
import { ActiveReservation } from './active-reservation.ts';
import { readHistory } from './history.ts';
import type {
  Consumption,
  Decision,
  Demand,
  LimitQuery,
  Limiter,
  LimitStatus,
  RateLimitHeaders,
  Reservation,
  LimitHistory,
} from './limiter.ts';
import { MemoryLimiter } from './memory.ts';
import { scopeId, scopesOf, scopesOfAllModels, type ScopeLimits } from './scope-limits.ts';
import { headersOf, appliedLimits, limitStatuses } from './limit-status.ts';
import {
  reservationsByKey,
  keyOf,
  packLimits,
  packCounts,
  parseAdmitReply,
  type AdmitResult,
  type StoredId,
  type UnknownScopes,
} from './valkey-messages.ts';
import { StoreUnavailableError, ValkeyConnection, type ValkeyTiming } from './valkey-connection.ts';
import { limitScripts, type Script, type Scripts } from './valkey-scripts.ts';

export interface ValkeyLimiterOptions {
  /** `redis://` or `rediss://`. */
  url: Secret;
  history: LimitHistory;
  log: Log;
  whenStoreUnavailable: 'local' | 'refuse';
  /** Largest share of a bucket's tokens that one request reserves, above 0 and at most 1. */
  reservedShare: number;
  /** Unique ID of this instance: letters, digits and "-". */
  instanceId: string;
  timing?: ValkeyTiming;
  scripts?: Scripts;
}

/**
 * Opens limits that all instances share in Valkey or Redis, on its clock. Resolves after the first connection attempt,
 * even if it failed. Throws a `TypeError` for an invalid URL.
 */
export async function openValkeyLimiter(options: ValkeyLimiterOptions): Promise<Limiter> {
  const limiter = new ValkeyLimiter(options);
  await limiter.tried;
  return limiter;
}

const TIMING: ValkeyTiming = { heartbeatMs: 1000, responseMs: 1000, leaseMs: 15_000, retryMs: 500 };

/** How many times one decision may repeat its read of the ledger before it fails. */
const MAX_READINGS = 8;

/** Reservations per `RESTORE_RESERVATIONS` command. */
const RESTORE_BATCH = 500;

/**
 * Counts requests in the shared store. `MemoryLimiter` tracks the running requests of this instance. While the store is
 * unreachable, `MemoryLimiter` decides, and counts each request as many times as there are instances.
 *
 * After each disconnect the instance takes a new ID. Reservations under the old ID are released when the instance has
 * stored them under the new one, or when the lease expires, so the outcome of commands without a response does not
 * matter. The instance also raises the generation, so that consumption settled during the outage is read from the ledger.
 */
class ValkeyLimiter implements Limiter {
  readonly store = 'valkey';
  readonly #options: ValkeyLimiterOptions;
  readonly #timing: ValkeyTiming;
  readonly #scripts: Scripts;
  readonly #local: MemoryLimiter;
  readonly #connection: ValkeyConnection;
  readonly #packedLimits = new WeakMap<ScopeLimits, string>();
  readonly #readings = new Map<string, Promise<void>>();
  #instanceId: string;
  #incarnation = 0;
  #ready = false;
  #closing = false;
  /** Whether the store may lack consumption. Initially true, because the previous process may not have reported all of it. */
  #missedUsage = true;
  #generation = 0;
  #instances = 1;
  #restoredAt = 0;

  constructor(options: ValkeyLimiterOptions) {
    this.#options = options;
    this.#instanceId = options.instanceId;
    this.#timing = options.timing ?? TIMING;
    this.#scripts = options.scripts ?? limitScripts();
    this.#local = new MemoryLimiter(options);
    this.#connection = new ValkeyConnection({
      url: options.url,
      log: options.log,
      name: 'limit store',
      timing: this.#timing,
      onConnected: () => this.#connected(),
      onHeartbeat: () => this.#heartbeat(),
      onDisconnected: () => this.#disconnected(),
    });
  }

  get reachable(): boolean {
    return this.#ready;
  }

  /** The number of instances at the last heartbeat, including this one. */
  get instances(): number {
    return this.#instances;
  }

  get tried(): Promise<void> {
    return this.#connection.tried;
  }

  admit(demand: Demand): Decision | Promise<Decision> {
    const scopes = scopesOf(demand);
    if (scopes.length === 0) return this.#local.admit(demand);
    return this.#ready ? this.#admit(demand, scopes) : this.#admitLocally(demand);
  }

  release(reservation: Reservation, actual: Consumption): void {
    // All stores create reservations of this class.
    const active = reservation as ActiveReservation;
    if (active.released) return;
    this.#local.release(active, actual);
    if (active.scopes.length === 0) return;
    if (active.stored?.instance === this.#instanceId && this.#connection.open) {
      this.#release(active, active.stored.id, actual).catch(() => (this.#missedUsage = true));
    } else {
      this.#missedUsage = true;
    }
  }

  async status(demand: LimitQuery): Promise<LimitStatus[]> {
    const scopes = demand.model === '' ? scopesOfAllModels(demand) : scopesOf(demand);
    if (!this.#ready || scopes.length === 0) return this.#local.status(demand);
    const { counts, nowMs } = await this.#currentCounts(demand, scopes);
    return limitStatuses(counts, nowMs);
  }

  currentHeaders(demand: LimitQuery): RateLimitHeaders | Promise<RateLimitHeaders> {
    const scopes = scopesOf(demand);
    if (!this.#ready || scopes.length === 0) return this.#local.currentHeaders(demand);
    return this.#currentCounts(demand, scopes).then(({ counts }) => headersOf(counts));
  }

  invalidate(): void {
    this.#missedUsage = true;
    if (this.#ready) this.#heartbeat().catch(() => {});
    else this.#local.invalidate();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing = true;
    // The store responds in order, so it has released all reservations of ended requests once it responds to this heartbeat.
    if (this.#connection.open) await this.#sendHeartbeat().catch(() => {});
    await this.#connection[Symbol.asyncDispose]();
  }

  async #admit(demand: Demand, scopes: readonly ScopeLimits[]): Promise<Decision> {
    const amounts = amountsOf(demand, this.#options.reservedShare, 1);
    let result: AdmitResult;
    try {
      result = await this.#evaluateAdmit(true, demand, scopes, amounts);
    } catch (error) {
      if (error instanceof StoreUnavailableError) return this.#admitLocally(demand);
      throw error;
    }
    const { room, nowMs, periods, counts } = result;
    const headers = headersOf(counts);
    if (!room) {
      const denial = denialOf(demand.plan, counts, amounts, nowMs);
      if (denial === null) throw new Error('a request was refused although no limit is exceeded');
      return { admitted: false, denial, headers };
    }
    const active = new ActiveReservation(demand, scopes, amounts, periods);
    active.appliedLimits = appliedLimits(counts);
    active.stored = result.stored;
    this.#local.adopt(active);
    return { admitted: true, reservation: active, headers };
  }

  #admitLocally(demand: Demand): Decision | Promise<Decision> {
    if (this.#options.whenStoreUnavailable === 'refuse') {
      const message = 'Limits cannot be checked now. Try again later.';
      return Promise.reject(new ServiceError('storage_unavailable', message, { retryAfterMs: 1000 }));
    }
    this.#missedUsage = true;
    const decision = this.#local.admit(demand);
    return decision instanceof Promise ? decision.then((late) => this.#recheck(demand, late)) : decision;
  }

  /** If the store became reachable during a local decision, discards the decision and lets the store decide. */
  #recheck(demand: Demand, decision: Decision): Decision | Promise<Decision> {
    if (!this.#ready) return decision;
    if (decision.admitted) this.#local.release(decision.reservation, { tokens: 0, pico: 0n, request: false });
    return this.#admit(demand, scopesOf(demand));
  }

  async #currentCounts(demand: LimitQuery, scopes: readonly ScopeLimits[]): Promise<AdmitResult> {
    try {
      const nothing = { requests: 0, tokens: 0, usd: 0 };
      return await this.#evaluateAdmit(false, demand, scopes, nothing);
    } catch (cause) {
      if (!(cause instanceof StoreUnavailableError)) throw cause;
      const message = 'Limits cannot be read now. Try again later.';
      throw new ServiceError('storage_unavailable', message, { cause, retryAfterMs: 1000 });
    }
  }

  /** Runs `ADMIT`, after storing consumption from the ledger if the store needs it. */
  async #evaluateAdmit(
    take: boolean,
    demand: LimitQuery & { requestId?: string },
    scopes: readonly ScopeLimits[],
    amounts: Amounts,
  ): Promise<AdmitResult> {
    const keys = scopes.map(({ holder, model }) =>
      keyOf(demand.accountId, scopeId(holder, demand.keyId, model)),
    );
    const { leaseMs } = this.#timing;
    for (let reading = 0; reading <= MAX_READINGS; reading++) {
      const stored = this.#storedId(demand.requestId ?? '');
      const call = {
        ...stored,
        take,
        generation: this.#generation,
        lease: leaseMs,
        amounts,
      };
      const limits = scopes.map((scope) => this.#packed(scope));
      const reply = await this.#evaluate(this.#scripts.admit, keys, call, limits);
      const result = parseAdmitReply(reply, scopes, stored);
      if ('room' in result) return result;
      await this.#loadUsage(demand, scopes, keys, result);
    }
    const message = 'The usage of this account cannot be read now. Try again later.';
    throw new ServiceError('storage_unavailable', message, { retryAfterMs: 1000 });
  }

  /** Reads consumption from the ledger; requests for the same scopes share one read. */
  #loadUsage(
    demand: LimitQuery,
    scopes: readonly ScopeLimits[],
    keys: readonly string[],
    unknown: UnknownScopes,
  ): Promise<void> {
    const name = `${demand.accountId} ${unknown.tickets.join(' ')}`;
    let reading = this.#readings.get(name);
    if (reading === undefined) {
      reading = this.#readAndStoreUsage(demand, scopes, keys, unknown).finally(() =>
        this.#readings.delete(name),
      );
      this.#readings.set(name, reading);
    }
    return reading;
  }

  async #readAndStoreUsage(
    demand: LimitQuery,
    scopes: readonly ScopeLimits[],
    keys: readonly string[],
    { nowMs, periods, tickets, counted }: UnknownScopes,
  ): Promise<void> {
    const recentMs = Math.max(...scopes.map(({ refillMs }) => refillMs));
    const { history } = this.#options;
    const holders = scopes.map(({ holder }) => (holder === 'key' ? demand.keyId : null));
    const entries = await readHistory(history, demand.accountId, holders, nowMs, recentMs, counted);
    const consumption = scopes.map((scope, index) =>
      packCounts(tickets[index] ?? '', scope, demand.keyId, entries),
    );
    await this.#evaluate(this.#scripts.storeCounts, keys, { periods }, consumption);
  }

  async #release(active: ActiveReservation, id: string, actual: Consumption): Promise<void> {
    const { accountId, amounts, periods } = active;
    const scopes = active.countedScopes();
    const keys = scopes.map((scope) => keyOf(accountId, scope.id));
    const limits = scopes.map(({ admittedBy }) =>
      admittedBy === undefined ? '{}' : this.#packed(admittedBy),
    );
    const call = { id, periods, amounts, used: usedAmounts(actual) };
    await this.#evaluate(this.#scripts.release, keys, call, limits);
  }

  #evaluate(script: Script, keys: readonly string[], call: object, args: readonly string[] = []) {
    return this.#connection.evaluate(script, keys, [JSON.stringify(call), ...args]);
  }

  /** Returns the limits of a scope as an argument. Cached per scope of a plan or key. */
  #packed(limits: ScopeLimits): string {
    let packed = this.#packedLimits.get(limits);
    if (packed === undefined) {
      this.#packedLimits.set(limits, (packed = packLimits(limits, this.#options.reservedShare)));
    }
    return packed;
  }

  #storedId(requestId: string): StoredId {
    return { id: `${this.#instanceId}/${requestId}`, instance: this.#instanceId };
  }

  /** Prepares a new connection: first restores the reservations of running requests. */
  async #connected(): Promise<void> {
    const dead = this.#instanceId;
    // If a script were not loaded, `evaluate` would send it again, and it could run after later commands.
    await this.#connection.load(Object.values(this.#scripts));
    this.#instanceId = `${this.#options.instanceId}.${++this.#incarnation}`;
    await this.#sendHeartbeat();
    await this.#restoreReservations(dead);
    // Requests that were admitted locally in the meantime also get reservations. New requests go to the store.
    this.#ready = true;
    const late = this.#restoreReservations('');
    this.#local.restart(1);
    await late;
  }

  #disconnected(): void {
    if (this.#ready) this.#local.restart(this.#instances);
    this.#ready = false;
  }

  async #heartbeat(): Promise<void> {
    const before = this.#generation;
    await this.#sendHeartbeat();
    const due = performance.now() - this.#restoredAt > this.#timing.leaseMs / 5;
    // A changed generation may mean that the store lost its data.
    if (due || this.#generation !== before) await this.#restoreReservations('');
  }

  /**
   * Raises the generation if consumption was missed, so that settled consumption is read again. While closing, every heartbeat
   * reports that this instance has stopped, because a scheduled heartbeat can follow the final one.
   */
  async #sendHeartbeat(): Promise<void> {
    const forMs = this.#closing ? 0 : this.#timing.heartbeatMs + 2 * this.#timing.responseMs;
    const raise = this.#missedUsage;
    this.#missedUsage = false;
    try {
      const keys = ['{sluice}:copies', '{sluice}:generation'];
      const call = { instance: this.#instanceId, lasts: forMs, raise };
      const result = await this.#evaluate(this.#scripts.heartbeat, keys, call);
      [this.#generation, this.#instances] = result as [number, number]; // The format that `HEARTBEAT` returns.
    } catch (error) {
      this.#missedUsage ||= raise;
      throw error;
    }
  }

  /**
   * Stores the reservations of all running requests under the current ID, and releases those of the instance `dead`.
   */
  async #restoreReservations(dead: string): Promise<void> {
    this.#restoredAt = performance.now();
    for (const active of this.#local.activeReservations()) {
      if (active.scopes.length > 0 && active.stored?.instance !== this.#instanceId)
        active.stored = this.#storedId(active.requestId);
    }
    const sent: Promise<boolean>[] = [];
    for (const [key, { lifetimeMs, pairs }] of reservationsByKey(this.#local.activeReservations())) {
      const call = { instance: this.#instanceId, lease: this.#timing.leaseMs, dead, lifetime: lifetimeMs };
      for (let at = 0; at < pairs.length; at += 2 * RESTORE_BATCH) {
        const some = pairs.slice(at, at + 2 * RESTORE_BATCH);
        sent.push(
          this.#connection.evaluateInOrder(
            this.#scripts.restoreReservations,
            [key],
            [JSON.stringify(call), ...some],
          ),
        );
      }
    }
    const done = await Promise.all(sent);
    if (!done.includes(false)) return;
    // Does not resend the same reservations: some may have been settled in the meantime, and the store would never
    // release those.
    await this.#connection.load([this.#scripts.restoreReservations]);
    await this.#restoreReservations(dead);
  }
}
