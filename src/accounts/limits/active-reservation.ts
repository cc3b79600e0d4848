import type { Periods } from './calendar.ts';
import type { RequestAmounts } from './counts.ts';
import type { Demand, Reservation } from './limiter.ts';
import { scopeId, type ScopeLimits } from './scope-limits.ts';

/** A scope in which a request is counted. */
export interface CountedScope {
  id: string;
  /** The limits of the scope at admission; undefined: none. */
  admittedBy: ScopeLimits | undefined;
}

/** The reservation of a running request. */
export class ActiveReservation implements Reservation {
  readonly requestId: string;
  readonly accountId: string;
  readonly keyId: string;
  readonly model: string;
  /** The scopes that had limits at admission. */
  readonly scopes: readonly ScopeLimits[];
  readonly tokens: number;
  readonly pico: bigint;
  readonly amounts: RequestAmounts;
  /** When it was admitted, on the clock of the store. It is counted in these periods. */
  readonly periods: Periods;
  /** JSON of the limits that applied, for the ledger. Set after admission. */
  appliedLimits = '[]';
  /** Its ID in the shared store and the instance that owns it; null: not stored. */
  stored: { id: string; instance: string } | null = null;
  released = false;

  constructor(demand: Demand, scopes: readonly ScopeLimits[], amounts: RequestAmounts, periods: Periods) {
    this.requestId = demand.requestId;
    this.accountId = demand.accountId;
    this.keyId = demand.keyId;
    this.model = demand.model;
    this.scopes = scopes;
    this.tokens = demand.worstTokens;
    this.pico = demand.worstPico;
    this.amounts = amounts;
    this.periods = periods;
  }

  /** Returns the four scopes in which it is counted, whether or not they have limits. */
  countedScopes(): readonly CountedScope[] {
    const { model } = this;
    return [
      this.#counted('account', null),
      this.#counted('account', model),
      this.#counted('key', null),
      this.#counted('key', model),
    ];
  }

  #counted(holder: 'account' | 'key', model: string | null): CountedScope {
    const id = scopeId(holder, this.keyId, model);
    for (const limits of this.scopes) {
      if (limits.holder === holder && limits.model === model) return { id, admittedBy: limits };
    }
    return { id, admittedBy: undefined };
  }
}
