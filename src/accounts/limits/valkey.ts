import { ServiceError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { Secret } from '../../secret.ts';
import type { Ask } from './counts.ts';
import { denialOf } from './denial.ts';
import { Held } from './held.ts';
import { readHistory } from './history.ts';
import type {
  Actual,
  Decision,
  Demand,
  Limits,
  LimitStanding,
  RateLimitHeaders,
  Reservation,
  UsageHistory,
} from './limits.ts';
import { askOf, MemoryLimits } from './memory.ts';
import { scopeId, scopesOf, scopesOfAllModels, type ScopeLimits } from './scope-limits.ts';
import { headersOf, heldAgainst, standingOf } from './standing.ts';
import {
  claimsOf,
  keyOf,
  learnArguments,
  limitArguments,
  readAnswer,
  settleArguments,
  type Answer,
  type StoredName,
  type Unknown,
} from './valkey-messages.ts';
import { StoreAwayError, ValkeyConnection, type ValkeyTiming } from './valkey-connection.ts';
import { ADMIT, BEAT, CLAIM, LEARN, SETTLE } from './valkey-scripts.ts';

export interface ValkeyLimitsOptions {
  /** `redis://` or `rediss://`. */
  url: Secret;
  history: UsageHistory;
  log: Log;
  whenStoreIsAway: 'local' | 'refuse';
  /** Largest share of a minute's tokens that one request sets aside, above 0 and at most 1. */
  reservedShare: number;
  /** Tells this copy of the service from all others: letters, digits and "-". */
  copyId: string;
  timing?: ValkeyTiming;
}

/**
 * Limits that all copies of the service count together in Valkey or Redis, on its clock. Resolves when the store has
 * been tried once, also where it is away. Throws a `TypeError` for an address that is none.
 */
export async function openValkeyLimits(options: ValkeyLimitsOptions): Promise<Limits> {
  const limits = new ValkeyLimits(options);
  await limits.tried;
  return limits;
}

const TIMING: ValkeyTiming = { beatMs: 1000, answerMs: 1000, leaseMs: 15_000, retryMs: 500 };

/** Readings of the ledger for one decision, before the store is called unavailable. */
const MOST_READINGS = 8;

/** Reservations that one command claims. */
const CLAIMED_AT_ONCE = 500;

type Asked = Omit<Demand, 'worstTokens' | 'worstPico'>;

/**
 * A memory of this process stands beside the store. While the store answers it only knows which requests run here;
 * while it is away, that memory decides, with each request counted once for every copy.
 *
 * After each break the copy takes a new name: what the old one held is taken out of the scopes that are claimed
 * anew, and elsewhere by its lease, so nothing has to be known of commands whose answer was lost. What was settled
 * meanwhile is read from the ledger, by raising the generation.
 */
class ValkeyLimits implements Limits {
  readonly store = 'valkey';
  readonly #options: ValkeyLimitsOptions;
  readonly #timing: ValkeyTiming;
  readonly #local: MemoryLimits;
  readonly #connection: ValkeyConnection;
  readonly #written = new WeakMap<ScopeLimits, string>();
  readonly #readings = new Map<string, Promise<void>>();
  #copy: string;
  #incarnation = 0;
  #reservations = 0;
  #up = false;
  /** Whether something may have been used that the store does not know: at first, by the process before this one. */
  #missed = true;
  #generation = 0;
  #copies = 1;
  #claimedAt = 0;

  constructor(options: ValkeyLimitsOptions) {
    this.#options = options;
    this.#copy = options.copyId;
    this.#timing = options.timing ?? TIMING;
    this.#local = new MemoryLimits(options);
    this.#connection = new ValkeyConnection({
      url: options.url,
      log: options.log,
      timing: this.#timing,
      onConnected: () => this.#enter(),
      onBeat: () => this.#beat(),
      onGone: () => this.#leave(),
    });
  }

  get reachable(): boolean {
    return this.#up;
  }

  /** Copies of the service as last seen, this one among them. */
  get copies(): number {
    return this.#copies;
  }

  get tried(): Promise<void> {
    return this.#connection.tried;
  }

  admit(demand: Demand): Decision | Promise<Decision> {
    const scopes = scopesOf(demand);
    if (scopes.length === 0) return this.#local.admit(demand);
    return this.#up ? this.#admit(demand, scopes) : this.#admitAlone(demand);
  }

  settle(reservation: Reservation, actual: Actual): void {
    // Reservations are made by a store of limits only, and all of them make this class.
    const held = reservation as Held;
    if (held.settled) return;
    this.#local.settle(held, actual);
    if (held.scopes.length === 0) return;
    if (held.stored?.copy === this.#copy && this.#connection.open) {
      this.#settle(held, held.stored.id, actual).catch(() => (this.#missed = true));
    } else {
      this.#missed = true;
    }
  }

  async standing(demand: Asked): Promise<LimitStanding[]> {
    const scopes = demand.model === '' ? scopesOfAllModels(demand) : scopesOf(demand);
    if (!this.#up || scopes.length === 0) return this.#local.standing(demand);
    const { counts, nowMs } = await this.#look(demand, scopes);
    return standingOf(scopes, counts, nowMs);
  }

  peek(demand: Asked): RateLimitHeaders | Promise<RateLimitHeaders> {
    const scopes = scopesOf(demand);
    if (!this.#up || scopes.length === 0) return this.#local.peek(demand);
    return this.#look(demand, scopes).then(({ counts }) => headersOf(scopes, counts));
  }

  recount(): void {
    this.#missed = true;
    if (this.#up) this.#beat().catch(() => {});
    else this.#local.recount();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Commands are answered in order: what was settled before has arrived then.
    if (this.#connection.open) await this.#signOfLife(0).catch(() => {});
    await this.#connection[Symbol.asyncDispose]();
  }

  async #admit(demand: Demand, scopes: readonly ScopeLimits[]): Promise<Decision> {
    const ask = askOf(demand, this.#options.reservedShare, 1);
    let answer: Answer;
    try {
      answer = await this.#ask('take', demand, scopes, ask);
    } catch (error) {
      if (error instanceof StoreAwayError) return this.#admitAlone(demand);
      throw error;
    }
    const { room, nowMs, counts } = answer;
    const headers = headersOf(scopes, counts);
    if (!room) {
      return { admitted: false, denial: denialOf(demand.plan, scopes, counts, ask, nowMs), headers };
    }
    const held = new Held(demand, scopes, ask, answer);
    held.heldAgainst = heldAgainst(scopes, counts);
    held.stored = answer.stored;
    this.#local.adopt(held);
    return { admitted: true, reservation: held, headers };
  }

  #admitAlone(demand: Demand): Decision | Promise<Decision> {
    if (this.#options.whenStoreIsAway === 'refuse') {
      const message = 'Limits cannot be checked now.';
      return Promise.reject(new ServiceError('storage_unavailable', message, { retryAfterMs: 1000 }));
    }
    this.#missed = true;
    const decision = this.#local.admit(demand);
    return decision instanceof Promise ? decision.then((late) => this.#recheck(demand, late)) : decision;
  }

  /** What was decided alone while the store came back is asked of the store instead. */
  #recheck(demand: Demand, decision: Decision): Decision | Promise<Decision> {
    if (!this.#up) return decision;
    if (decision.admitted) this.#local.settle(decision.reservation, { tokens: 0, pico: 0n, request: false });
    return this.#admit(demand, scopesOf(demand));
  }

  async #look(demand: Asked, scopes: readonly ScopeLimits[]): Promise<Answer> {
    try {
      const nothing = { tokens: 0, nano: 0, reservedShare: this.#options.reservedShare, weight: 1 };
      return await this.#ask('look', demand, scopes, nothing);
    } catch (cause) {
      if (!(cause instanceof StoreAwayError)) throw cause;
      const message = 'Limits cannot be read now.';
      throw new ServiceError('storage_unavailable', message, { cause, retryAfterMs: 1000 });
    }
  }

  /** Asks the store, and tells it first what the ledger knows where it does not know it. */
  async #ask(
    mode: 'take' | 'look',
    demand: Asked,
    scopes: readonly ScopeLimits[],
    ask: Ask,
  ): Promise<Answer> {
    const keys = scopes.map(({ scope, model }) =>
      keyOf(demand.accountId, scopeId(scope, demand.keyId, model)),
    );
    const { leaseMs } = this.#timing;
    for (let reading = 0; reading <= MOST_READINGS; reading++) {
      const stored = this.#newName();
      const args = [
        mode,
        String(this.#generation),
        stored.copy,
        String(leaseMs),
        stored.id,
        String(ask.tokens),
        String(ask.nano),
      ];
      for (const limits of scopes) args.push(this.#limitArguments(limits));
      const answer = readAnswer(await this.#connection.evaluate(ADMIT, keys, args), stored);
      if ('room' in answer) return answer;
      await this.#tell(demand, scopes, keys, answer);
    }
    const message = 'What this account has used cannot be read now.';
    throw new ServiceError('storage_unavailable', message, { retryAfterMs: 1000 });
  }

  /** Requests that wait for the same scopes share one reading of the ledger. */
  #tell(
    demand: Asked,
    scopes: readonly ScopeLimits[],
    keys: readonly string[],
    unknown: Unknown,
  ): Promise<void> {
    const name = `${demand.accountId} ${unknown.tickets.join(' ')}`;
    let reading = this.#readings.get(name);
    if (reading === undefined) {
      reading = this.#read(demand, scopes, keys, unknown).finally(() => this.#readings.delete(name));
      this.#readings.set(name, reading);
    }
    return reading;
  }

  async #read(
    demand: Asked,
    scopes: readonly ScopeLimits[],
    keys: readonly string[],
    { nowMs, day, month, tickets }: Unknown,
  ): Promise<void> {
    const recentMs = Math.max(...scopes.map(({ refillMs }) => refillMs));
    const entries = await readHistory(this.#options.history, demand.accountId, nowMs, recentMs);
    const args = learnArguments({ day, month, keyId: demand.keyId }, scopes, tickets, entries);
    await this.#connection.evaluate(LEARN, keys, args);
  }

  async #settle(held: Held, id: string, actual: Actual): Promise<void> {
    await this.#connection.evaluate(
      SETTLE,
      held.counted().map((scope) => keyOf(held.accountId, scope.id)),
      settleArguments(held, id, actual),
    );
  }

  /** Written once for each scope of a plan. */
  #limitArguments(limits: ScopeLimits): string {
    let written = this.#written.get(limits);
    if (written === undefined) {
      this.#written.set(limits, (written = limitArguments(limits, this.#options.reservedShare)));
    }
    return written;
  }

  #newName(): StoredName {
    return { id: `${this.#copy}/${(this.#reservations++).toString(36)}`, copy: this.#copy };
  }

  /** Brings a new connection into use: first the store learns what runs here. */
  async #enter(): Promise<void> {
    const dead = this.#copy;
    // What a script that is not there would be sent a second time for could come after what followed it.
    await this.#connection.load([ADMIT, LEARN, SETTLE, CLAIM, BEAT]);
    this.#copy = `${this.#options.copyId}.${++this.#incarnation}`;
    await this.#signOfLife();
    await this.#claim(dead);
    // What was admitted alone meanwhile is claimed too, and what comes now is asked of the store.
    this.#up = true;
    const late = this.#claim('');
    this.#local.restart(1);
    await late;
  }

  #leave(): void {
    if (this.#up) this.#local.restart(this.#copies);
    this.#up = false;
  }

  async #beat(): Promise<void> {
    const before = this.#generation;
    await this.#signOfLife();
    const due = performance.now() - this.#claimedAt > this.#timing.leaseMs / 5;
    // A generation that is not the one before may be that of a store that has forgotten everything.
    if (due || this.#generation !== before) await this.#claim('');
  }

  /** Also tells, by the generation, that settled usage has to be read anew where some was missed. */
  async #signOfLife(forMs = this.#timing.beatMs + 2 * this.#timing.answerMs): Promise<void> {
    const raise = this.#missed;
    this.#missed = false;
    try {
      const keys = ['{sluice}:copies', '{sluice}:generation'];
      const args = [this.#copy, String(forMs), raise ? '1' : '0'];
      const answer = await this.#connection.evaluate(BEAT, keys, args);
      [this.#generation, this.#copies] = answer as [number, number]; // What the script answers.
    } catch (error) {
      this.#missed ||= raise;
      throw error;
    }
  }

  /** Says what runs here, under the name of now, and that a copy of that name is dead. */
  async #claim(dead: string): Promise<void> {
    this.#claimedAt = performance.now();
    for (const held of this.#local.live()) {
      if (held.scopes.length > 0 && held.stored?.copy !== this.#copy) held.stored = this.#newName();
    }
    const sent: Promise<unknown>[] = [];
    for (const [key, { lifetimeMs, pairs }] of claimsOf(this.#local.live())) {
      const whose = [this.#copy, String(this.#timing.leaseMs), dead, String(lifetimeMs)];
      for (let at = 0; at < pairs.length; at += 2 * CLAIMED_AT_ONCE) {
        const some = pairs.slice(at, at + 2 * CLAIMED_AT_ONCE);
        sent.push(this.#connection.evaluate(CLAIM, [key], [...whose, ...some]));
      }
    }
    await Promise.all(sent);
  }
}
