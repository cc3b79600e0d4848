import type { RequestAmounts } from './counts.ts';
import type { Demand, Reservation } from './limits.ts';
import { minuteTokens, scopeId, type ScopeLimits } from './scope-limits.ts';

/** The UTC day and month in which a request was admitted, on the clock of the store. */
export interface AdmissionPeriod {
  day: number;
  month: number;
}

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
  readonly nano: number;
  /** The UTC day and month of its admission. It is counted in these. */
  readonly day: number;
  readonly month: number;
  /** JSON of the limits that applied, for the ledger. Set after admission. */
  appliedLimits = '[]';
  readonly #reservedShare: number;
  /** Its ID in the shared store and the instance that owns it; null: not stored. */
  stored: { id: string; instance: string } | null = null;
  settled = false;

  constructor(
    demand: Demand,
    scopes: readonly ScopeLimits[],
    amounts: RequestAmounts,
    admitted: AdmissionPeriod,
  ) {
    this.requestId = demand.requestId;
    this.accountId = demand.accountId;
    this.keyId = demand.keyId;
    this.model = demand.model;
    this.scopes = scopes;
    this.tokens = demand.worstTokens;
    this.pico = demand.worstPico;
    this.nano = amounts.nano;
    this.day = admitted.day;
    this.month = admitted.month;
    this.#reservedShare = amounts.reservedShare;
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

  /** Returns the tokens reserved from the tokens-per-minute bucket of `limits`; 0: no such limit. */
  minuteTokensOf(limits: ScopeLimits): number {
    return limits.tokens === null ? 0 : minuteTokens(limits.tokens, this.tokens, this.#reservedShare);
  }

  #counted(scope: 'account' | 'key', model: string | null): CountedScope {
    const id = scopeId(scope, this.keyId, model);
    for (const limits of this.scopes) {
      if (limits.scope === scope && limits.model === model) return { id, admittedBy: limits };
    }
    return { id, admittedBy: undefined };
  }
}
