import type { AuthenticatedKey } from '../accounts/keys.ts';
import { costOf } from '../accounts/ledger/cost.ts';
import {
  ledgerUnavailable,
  type Ledger,
  type OpenedRow,
  type Settlement,
} from '../accounts/ledger/ledger.ts';
import type { ActualUsage, LimitQuery, Limits, Reservation } from '../accounts/limits/limits.ts';
import type { Plan, Plans } from '../accounts/plans.ts';
import { ServiceError } from '../errors.ts';
import type { GenerationRequest } from '../generation.ts';
import type { ServedModel } from '../routing/served-model.ts';
import type { GenerationRecord } from './record.ts';
import { clampUsage, worstCase, type WorstCase } from './worst-case.ts';

/** Applies plans to requests and records their usage. */
export interface Accounting {
  plans: Plans;
  limits: Limits;
  ledger: Ledger;
}

/** The IDs and the caller of a request. */
export interface RequestIdentity {
  /** A UUIDv7. */
  requestId: string;
  /** The client request ID; null: none. */
  clientRequestId: string | null;
  /** The ID of the protocol that the caller speaks. */
  protocol: string;
  caller: AuthenticatedKey;
}

/** The outcome of a request, for the ledger. */
export interface SettlementOutcome {
  /** Code of the error, or `client_disconnected`; null: completed. */
  code: string | null;
  status: number;
  /** Whether the caller is charged. */
  billed: boolean;
  /** Whether the client is still connected. */
  delivered: boolean;
}

/** The limit reservation and the ledger row of one request. */
export class RequestAccounting {
  readonly #accounting: Accounting;
  readonly #identity: RequestIdentity;
  readonly #model: ServedModel;
  readonly #record: GenerationRecord;
  #worst: WorstCase | null = null;
  #reservation: Reservation | null = null;
  #opened: Promise<void> | null = null;
  /** The weight of the plan. Set by `open`. */
  weight = 1;

  constructor(
    accounting: Accounting,
    identity: RequestIdentity,
    model: ServedModel,
    record: GenerationRecord,
  ) {
    this.#accounting = accounting;
    this.#identity = identity;
    this.#model = model;
    this.#record = record;
  }

  /**
   * Resolves when the row is on disk. Rejects with a `ServiceError` `storage_unavailable` if it cannot be written. Null
   * before admission.
   */
  get opened(): Promise<void> | null {
    return this.#opened;
  }

  /**
   * Reserves the worst case of the request in its limits, and begins to write its row: see `opened`. Rejects with the
   * `ServiceError` of an exceeded limit, or with `storage_unavailable`; nothing is reserved then.
   */
  async open(request: GenerationRequest): Promise<void> {
    const { limits, ledger, plans } = this.#accounting;
    const { caller, requestId, clientRequestId, protocol } = this.#identity;
    const { price } = this.#model;
    // Without this check, the replica would generate until the ledger refuses the row.
    if (!ledger.health.writable) throw ledgerUnavailable();
    const worst = (this.#worst = worstCase(request, this.#model));
    const plan = plans.of(caller.plan);
    if (plan === null) {
      throw new ServiceError(
        'insufficient_quota',
        'The plan of this account no longer exists. Contact the operator of this service.',
      );
    }
    this.weight = plan.weight;
    const decision = await limits.admit({
      ...limitQuery(caller, plan, request.model),
      requestId,
      worstTokens: worst.tokens,
      worstPico: worst.pico,
    });
    this.#record.limitHeaders = decision.headers;
    if (!decision.admitted) {
      const { code, limit, message, retryAfterMs } = decision.denial;
      this.#record.deniedBy = limit;
      throw new ServiceError(code, message, retryAfterMs === null ? {} : { retryAfterMs });
    }
    const { reservation } = decision;
    this.#reservation = reservation;
    const opened = ledger.open(
      {
        id: requestId,
        clientRequestId,
        accountId: caller.accountId,
        keyId: caller.id,
        endpoint: protocol,
        model: request.model,
        streamed: request.stream,
        startedAt: this.#record.startedAt,
        plan: plan.name,
        limits: reservation.appliedLimits,
        reservedTokens: reservation.tokens,
        reservedPico: reservation.pico,
        pricePrompt: price.prompt,
        priceCompletion: price.completion,
      } satisfies Required<OpenedRow>,
      this.#record,
    );
    this.#opened = opened.then(() => {
      this.#record.isRowWritten = true;
    });
  }

  /** Lowers the usage to the reserved worst case. Returns whether the usage exceeded it. */
  clamp(): boolean {
    const record = this.#record;
    const clamped = this.#worst && clampUsage(record.usage, this.#worst, this.#model.price);
    if (!clamped) return false;
    record.usage = clamped;
    record.usageSource = 'clamped';
    return true;
  }

  /** Counts completion tokens that were generated but not received, within the worst case. */
  estimateCompletion(tokens: number): void {
    const { usage } = this.#record;
    const { completionTokens = 0, tokens: most = 0 } = this.#worst ?? {};
    usage.completionTokens = Math.max(0, Math.min(tokens, completionTokens, most - usage.promptTokens));
  }

  /** Writes a checkpoint of the counts. */
  checkpoint(): void {
    this.#accounting.ledger.checkpoint(this.#identity.requestId);
  }

  /**
   * Settles the row, durably, then the reservation. Rejects with a `ServiceError` `storage_unavailable` if the
   * row cannot be written in time, or belongs to another instance; the request then costs nothing.
   */
  async settle(outcome: SettlementOutcome): Promise<void> {
    const { limits, ledger } = this.#accounting;
    const record = this.#record;
    let actual = NOTHING;
    try {
      if (this.#opened === null) return;
      const settled = await ledger.settle(this.#identity.requestId, {
        replica: record.replica,
        attempts: record.attempts,
        continuedAfter: record.continuedAfter,
        slotAt: record.slotAt,
        firstTokenAt: record.firstTokenAt,
        endedAt: record.endedAt ?? Date.now(),
        usage: record.usage,
        usageSource: record.usageSource,
        finishReason: outcome.code === null ? record.finishReason : null,
        errorCode: outcome.code,
        httpStatus: outcome.status,
        delivered: outcome.delivered,
        billed: outcome.billed,
      } satisfies Required<Settlement>);
      if (settled === 'settled') this.#record.isRowWritten = true;
      else {
        throw new ServiceError('storage_unavailable', 'The usage of this request could not be saved.');
      }
      if (outcome.billed) {
        const { usage } = record;
        const tokens = usage.promptTokens + usage.completionTokens;
        record.costPico = costOf(usage, this.#model.price);
        actual = { tokens, pico: record.costPico, request: true };
      }
    } finally {
      if (this.#reservation) limits.settle(this.#reservation, actual);
    }
  }
}

/** The usage of a failed request. */
const NOTHING: ActualUsage = { tokens: 0, pico: 0n, request: false };

/** Returns the rate limit headers for a request that was refused before admission. */
export async function currentHeaders(
  { limits, plans }: Accounting,
  caller: AuthenticatedKey,
  model: string | null,
): Promise<readonly string[]> {
  const plan = plans.of(caller.plan);
  return plan === null ? [] : await limits.currentHeaders(limitQuery(caller, plan, model ?? ''));
}

function limitQuery(caller: AuthenticatedKey, plan: Plan, model: string): LimitQuery {
  return {
    accountId: caller.accountId,
    keyId: caller.id,
    model,
    plan: plan.name,
    planLimits: plan.limits,
    keyLimits: caller.limits,
  };
}
