import type { Ask } from './counts.ts';
import type { Demand, Reservation } from './limits.ts';
import { minuteTokens, scopeId, type ScopeLimits } from './scope-limits.ts';

/** When an admitted request started, by the clock of the store that admitted it. */
export interface Admitted {
  day: number;
  month: number;
}

/** A scope in which a request counts. */
export interface Counted {
  id: string;
  /** The limits of the scope by which it was admitted; undefined: it had none then. */
  admittedBy: ScopeLimits | undefined;
}

/** What one running request holds of its limits. */
export class Held implements Reservation {
  readonly accountId: string;
  readonly keyId: string;
  readonly model: string;
  /** Those it was admitted by. */
  readonly scopes: readonly ScopeLimits[];
  readonly tokens: number;
  readonly pico: bigint;
  readonly nano: number;
  /** UTC day and month that it counts in: those it started in. */
  readonly day: number;
  readonly month: number;
  /** Told when it has been taken. */
  heldAgainst = '[]';
  readonly #reservedShare: number;
  /** Its name in the shared store, and the copy that holds it there; null: it is not there. */
  stored: { id: string; copy: string } | null = null;
  settled = false;

  constructor(demand: Demand, scopes: readonly ScopeLimits[], ask: Ask, admitted: Admitted) {
    this.accountId = demand.accountId;
    this.keyId = demand.keyId;
    this.model = demand.model;
    this.scopes = scopes;
    this.tokens = demand.worstTokens;
    this.pico = demand.worstPico;
    this.nano = ask.nano;
    this.day = admitted.day;
    this.month = admitted.month;
    this.#reservedShare = ask.reservedShare;
  }

  /** The four scopes that it counts in, whichever of them have limits now. */
  counted(): readonly Counted[] {
    const { model } = this;
    return [
      this.#counted('account', null),
      this.#counted('account', model),
      this.#counted('key', null),
      this.#counted('key', model),
    ];
  }

  /** The tokens of a minute that it took beforehand. */
  minuteTokensOf(limits: ScopeLimits): number {
    return limits.tokens === null ? 0 : minuteTokens(limits.tokens, this.tokens, this.#reservedShare);
  }

  #counted(scope: 'account' | 'key', model: string | null): Counted {
    const admittedBy = this.scopes.find((limits) => limits.scope === scope && limits.model === model);
    return { id: scopeId(scope, this.keyId, model), admittedBy };
  }
}
