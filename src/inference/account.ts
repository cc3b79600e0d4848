import type { AuthenticatedKey } from '../accounts/keys.ts';
import { costOf } from '../accounts/ledger/cost.ts';
import type { Ledger } from '../accounts/ledger/ledger.ts';
import type { ActualUsage, Demand, Denial, Limits, Reservation } from '../accounts/limits/limits.ts';
import type { Plan, Plans } from '../accounts/plans.ts';
import { ServiceError } from '../errors.ts';
import type { GenerationRequest } from '../generation.ts';
import type { ServedModel } from '../routing/served-model.ts';
import type { GenerationRecord } from './record.ts';
import { clampUsage, worstCase, type WorstCase } from './worst-case.ts';

/** What holds requests to their plans and counts them. */
export interface Accounting {
  plans: Plans;
  limits: Limits;
  ledger: Ledger;
}

/** Whose request it is, and what it is called. */
export interface Asker {
  /** Ours, a UUIDv7. */
  requestId: string;
  /** The caller's own id for it; null: none. */
  clientRequestId: string | null;
  caller: AuthenticatedKey;
}

/** How a request ended for the books. */
export interface Outcome {
  /** Code of the error, or `hung_up`; null: it came to its end. */
  code: string | null;
  status: number;
  /** Whether the caller pays. */
  billed: boolean;
  /** Whether the caller is there to read the end. */
  delivered: boolean;
}

/** A limit said no. */
class LimitReached extends ServiceError {
  constructor({ code, message, retryAfterMs }: Denial) {
    super(code, message, retryAfterMs === null ? {} : { retryAfterMs });
    this.name = 'LimitReached';
  }
}

/** The books of one request: what is set aside for it, its row, and how both end. */
export class Account {
  readonly #accounting: Accounting;
  readonly #asker: Asker;
  readonly #model: ServedModel;
  readonly #record: GenerationRecord;
  #worst: WorstCase | null = null;
  #reservation: Reservation | null = null;
  #opened = false;

  constructor(accounting: Accounting, asker: Asker, model: ServedModel, record: GenerationRecord) {
    this.#accounting = accounting;
    this.#asker = asker;
    this.#model = model;
    this.#record = record;
  }

  /**
   * Takes what the request may use from its limits and opens its row, durably. Rejects with `LimitReached`, or a
   * `ServiceError` `storage_unavailable`; nothing is taken then.
   */
  async open(request: GenerationRequest): Promise<void> {
    const { limits, ledger, plans } = this.#accounting;
    const { caller, requestId, clientRequestId } = this.#asker;
    const { price } = this.#model;
    const worst = (this.#worst = worstCase(request, this.#model));
    const plan = planOf(plans, caller);
    const decision = await limits.admit({
      ...asked(caller, plan, request.model),
      worstTokens: worst.tokens,
      worstPico: worst.pico,
    });
    this.#record.limitHeaders = decision.headers;
    if (!decision.admitted) throw new LimitReached(decision.denial);
    const { reservation } = decision;
    this.#reservation = reservation;
    await ledger.open(
      {
        id: requestId,
        clientRequestId,
        accountId: caller.accountId,
        keyId: caller.id,
        endpoint: request.kind,
        model: request.model,
        streamed: request.stream,
        startedAt: this.#record.startedAt,
        plan: plan.name,
        limits: reservation.appliedLimits,
        reservedTokens: reservation.tokens,
        reservedPico: reservation.pico,
        pricePrompt: price.prompt,
        priceCompletion: price.completion,
      },
      this.#record,
    );
    this.#opened = true;
  }

  /** Lowers counts above the worst case that was set aside. Returns whether there were any. */
  clamp(): boolean {
    const record = this.#record;
    const clamped = this.#worst && clampUsage(record.usage, this.#worst, this.#model.price);
    if (!clamped) return false;
    record.usage = clamped;
    record.usageSource = 'clamped';
    return true;
  }

  /** Counts completion tokens that were generated but never arrived, within the worst case. */
  estimateCompletion(tokens: number): void {
    const { usage } = this.#record;
    const { completionTokens = 0, tokens: most = 0 } = this.#worst ?? {};
    usage.completionTokens = Math.max(0, Math.min(tokens, completionTokens, most - usage.promptTokens));
  }

  /** Has the counts so far written soon. */
  checkpoint(): void {
    this.#accounting.ledger.checkpoint(this.#asker.requestId);
  }

  /**
   * Writes how the request ended, durably, then corrects what was set aside. Rejects with a `ServiceError`
   * `storage_unavailable` where the row cannot be written in time, or is not ours any more: then the request has
   * cost nothing.
   */
  async settle(outcome: Outcome): Promise<void> {
    const { limits, ledger } = this.#accounting;
    const record = this.#record;
    let actual = NOTHING;
    try {
      if (!this.#opened) return;
      const settled = await ledger.settle(this.#asker.requestId, {
        replica: record.replica,
        attempts: record.attempts,
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
      });
      if (settled === 'lost') {
        throw new ServiceError('storage_unavailable', 'The usage of this request could not be saved.');
      }
      if (outcome.billed) actual = this.#used();
    } finally {
      if (this.#reservation) limits.settle(this.#reservation, actual);
    }
  }

  #used(): ActualUsage {
    const { usage } = this.#record;
    const tokens = usage.promptTokens + usage.completionTokens;
    return { tokens, pico: costOf(usage, this.#model.price), request: true };
  }
}

/** What a request has used that our fault, or its own, has ended. */
const NOTHING: ActualUsage = { tokens: 0, pico: 0n, request: false };

/** What the limits say to a request that was refused before it asked for anything. */
export async function peek(
  { limits, plans }: Accounting,
  caller: AuthenticatedKey,
  model: string | null,
): Promise<readonly string[]> {
  const plan = plans.of(caller.plan);
  return plan === null ? [] : await limits.peek(asked(caller, plan, model ?? ''));
}

type Asked = Omit<Demand, 'worstTokens' | 'worstPico'>;

function asked(caller: AuthenticatedKey, plan: Plan, model: string): Asked {
  return {
    accountId: caller.accountId,
    keyId: caller.id,
    model,
    plan: plan.name,
    planLimits: plan.limits,
    keyLimits: caller.limits,
  };
}

function planOf(plans: Plans, caller: AuthenticatedKey): Plan {
  const plan = plans.of(caller.plan);
  if (plan) return plan;
  throw new LimitReached({
    code: 'insufficient_quota',
    message: 'The plan of this account no longer exists. Contact the operator of this service.',
    retryAfterMs: null,
  });
}
