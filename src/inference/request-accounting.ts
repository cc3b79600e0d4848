import type { AuthenticatedKey } from '../accounts/keys.ts';
import { costOf } from '../accounts/ledger/cost.ts';
import {
  ledgerUnavailable,
  type Ledger,
  type OpenedRow,
  type Settlement,
} from '../accounts/ledger/ledger.ts';
import type { PlanLimits } from '../config/plan.ts';
import type {
  Consumption,
  Decision,
  Denial,
  LimitQuery,
  Limiter,
  RateLimitHeaders,
  Reservation,
} from '../accounts/limits/limiter.ts';
import type { Plan, Plans } from '../accounts/plans.ts';
import { ServiceError } from '../core/errors.ts';
import {
  isForText,
  type GenerationRequest,
  hasImages,
  promptCount,
  totalChoices,
  UNKNOWN_CONTEXT,
  type Usage,
} from '../core/generation.ts';
import { promptTokenBounds, TOKENS_PER_CHAT } from '../core/prompt-bound.ts';
import type { ServedModel, ConfiguredModel } from '../routing/served-model.ts';
import { describeInput } from './model-input.ts';
import type { CacheMiss, PromptHistory } from './prompt-history.ts';
import type { GenerationRecord } from './record.ts';

/** Applies plans to requests and records their usage. */
export interface Accounting {
  plans: Plans;
  limiter: Limiter;
  ledger: Ledger;
  prompts: PromptHistory;
}

/** The IDs and the caller of a request. */
export interface RequestIdentity {
  /** A UUIDv7. */
  requestId: string;
  /** The client request ID; null: none. */
  clientRequestId: string | null;
  /** The ID of the protocol that the caller speaks. */
  protocol: string;
  /** The program that sent the request; null: unknown. */
  client: string | null;
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
  #request: GenerationRequest | null = null;
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
   * `ServiceError` of an exceeded limit, with `storage_unavailable`, or with the reason of the signal; nothing is
   * reserved then. Aborts `stop` if the row cannot be written.
   */
  async open(request: GenerationRequest, stop: AbortController): Promise<void> {
    const { ledger, plans } = this.#accounting;
    const { caller, requestId, clientRequestId, protocol, client } = this.#identity;
    // Without this check, the replica would generate until the ledger refuses the row.
    if (!ledger.health.writable) throw ledgerUnavailable();
    this.#request = request;
    const plan = planOf(plans, caller);
    this.weight = plan.weight;
    const worstAtFirst = worstCase(request, this.#model);
    const first = this.#decide(request, plan, worstAtFirst, null);
    const { decision, worst } =
      !(first instanceof Promise) && first.admitted
        ? { decision: first, worst: worstAtFirst }
        : await this.#admit(request, plan, stop.signal, await first);
    const { price } = (this.#worst = worst);
    this.#record.limitHeaders = decision.headers;
    if (!decision.admitted) {
      this.#record.deniedBy = decision.denial;
      throw errorOf(decision.denial);
    }
    const { reservation } = decision;
    this.#reservation = reservation;
    const opened = ledger.open(
      {
        id: requestId,
        clientRequestId,
        accountId: caller.accountId,
        keyId: caller.id,
        client,
        endpoint: protocol,
        model: request.model,
        streamed: request.stream,
        startedAt: this.#record.startedAt,
        plan: plan.name,
        limits: reservation.appliedLimits,
        modelInput: describeInput(request, this.#model, this.#record.notes),
        reservedTokens: reservation.tokens,
        reservedPico: reservation.pico,
        pricePrompt: price.prompt,
        priceCompletion: price.completion,
        priceInputCacheRead: price.inputCacheRead,
      } satisfies Required<OpenedRow>,
      this.#record,
    );
    this.#opened = opened;
    opened.then(
      () => (this.#record.isRowWritten = true),
      (error: unknown) => stop.abort(error),
    );
  }

  /**
   * Reserves the worst case. If it exceeds what is left of a calendar limit, counts the prompt instead of its bytes, and
   * then lowers the default of `max_tokens` to what is left.
   */
  async #admit(
    request: GenerationRequest,
    plan: Plan,
    signal: AbortSignal,
    first: Decision,
  ): Promise<{ decision: Decision; worst: WorstCase }> {
    const hasDefault = request.maxTokens === null && !this.#record.notes.strict;
    let promptTokens: number | null | undefined;
    let decided: Decision | null = first;
    for (;;) {
      const counted = promptTokens ?? null;
      const worst = worstCase(request, this.#model, counted);
      const decision: Decision = decided ?? (await this.#decide(request, plan, worst, counted));
      decided = null;
      if (decision.admitted || decision.denial.left === null) return { decision, worst };
      const { left, limit } = decision.denial;
      if (promptTokens === undefined) {
        promptTokens = await this.#countPrompt(request, left, worst, signal);
        if (promptTokens !== null) continue;
      }
      const most = longestCompletion(worst, left, totalChoices(request));
      if (left.waits || !hasDefault || most < 1 || most >= (request.maxTokens ?? Infinity))
        return { decision, worst };
      if (request.maxTokens === null) {
        this.#record.notes.add('max_tokens', `limited to what is left of \`${limit}\``);
      }
      request.maxTokens = most;
    }
  }

  #decide(
    request: GenerationRequest,
    plan: Plan,
    worst: WorstCase,
    counted: number | null,
  ): Decision | Promise<Decision> {
    const { caller, requestId } = this.#identity;
    return this.#accounting.limiter.admit({
      ...limitQuery(caller, plan, request.model),
      requestId,
      worstTokens: worst.tokens,
      worstPico: worst.pico,
      shortest: () => shortestCase(request, this.#model, counted),
    });
  }

  /**
   * Counts the prompt of a request that a limit would refuse, as soon as a replica is ready. Null: it cannot be counted, or
   * is certainly above the limit. Rejects with 503 `engine_unavailable` if no replica counts it in time, because callers give
   * up after the error of the limit.
   */
  async #countPrompt(
    request: GenerationRequest,
    { unit, amount }: LeftOfLimit,
    { promptTokens: bound, price }: WorstCase,
    signal: AbortSignal,
  ): Promise<number | null> {
    const { accountId } = this.#identity.caller;
    const least = Math.max(0, bound - TOKENS_PER_CHAT) / MOST_BYTES_PER_TOKEN;
    const leastAmount = unit === 'usd' ? (least * price.prompt) / 1000 : least;
    const isOnePrompt = isForText(request) && promptCount(request) === 1;
    if (!isOnePrompt || leastAmount > amount || hasImages(request)) return null;
    await this.#model.whenReady({ request, accountId, weight: this.weight, signal });
    const count = await inTurn(accountId, () => this.#model.countPromptTokens(request, signal));
    if (count.late) {
      const message = 'The prompt could not be counted, which a limit requires. Try again later.';
      throw new ServiceError('engine_unavailable', message, { retryAfterMs: 1000 });
    }
    return count.exact ? count.tokens : null;
  }

  /** Lowers the usage to the reserved worst case. Returns whether the usage exceeded it. */
  clamp(): boolean {
    const record = this.#record;
    const clamped = this.#worst && clampUsage(record.usage, this.#worst);
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

  /** Remembers the prompt, and returns why part of it was computed again; see `PromptHistory.add`. */
  #cacheMiss(): CacheMiss | null {
    const {
      replica,
      usage,
      usageSource,
      startedAtMs,
      firstTokenAtMs,
      endedAtMs,
      finishReason,
      continuedAfter,
    } = this.#record;
    if (this.#request === null || replica === null || endedAtMs === null) return null;
    // The prompt was not computed to its end.
    if (firstTokenAtMs === null && finishReason === null) return null;
    // Other counts do not say what was computed.
    if (usageSource !== 'engine' || continuedAfter !== null) return null;
    return this.#accounting.prompts.add({
      accountId: this.#identity.caller.accountId,
      request: this.#request,
      replica,
      isOwnEngine: this.#model.dialects.every((dialect) => dialect === 'sluice'),
      usage,
      startedAtMs,
      endedAtMs,
    });
  }

  /**
   * Settles the row, durably, then the reservation. Rejects with a `ServiceError` `storage_unavailable` if the
   * row cannot be written in time, or belongs to another instance; the request then costs nothing.
   */
  async settle(outcome: SettlementOutcome): Promise<void> {
    const { limiter, ledger } = this.#accounting;
    const record = this.#record;
    let actual = NOTHING;
    try {
      if (this.#opened === null || this.#worst === null) return;
      const miss = outcome.billed ? this.#cacheMiss() : null;
      const settled = await ledger.settle(this.#identity.requestId, {
        replica: record.replica,
        attempts: record.attempts,
        continuedAfter: record.continuedAfter,
        slotAt: record.slotAt,
        firstTokenAt: record.firstTokenAt,
        endedAt: record.endedAt ?? Date.now(),
        usage: record.usage,
        usageSource: record.usageSource,
        cacheMiss: miss?.at ?? null,
        cacheMissTokens: miss?.tokens ?? 0,
        cacheMissAfterMs: miss?.afterMs ?? null,
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
        record.costPico = costOf(usage, this.#worst.price);
        actual = { tokens, pico: record.costPico, request: true };
      } else if (outcome.status >= 400 && outcome.status < 500) {
        actual = REFUSED;
      }
    } finally {
      if (this.#reservation) limiter.release(this.#reservation, actual);
    }
  }
}

type LeftOfLimit = NonNullable<Denial['left']>;

/** By account, the end of its latest count. */
const COUNTS = new Map<string, Promise<unknown>>();

/** Counts one prompt of an account at a time, because a request that is then refused costs nothing. */
async function inTurn<T>(accountId: string, count: () => Promise<T>): Promise<T> {
  const counted = (COUNTS.get(accountId) ?? Promise.resolve()).then(count);
  const ended = counted.catch(() => {});
  COUNTS.set(accountId, ended);
  try {
    return await counted;
  } finally {
    if (COUNTS.get(accountId) === ended) COUNTS.delete(accountId);
  }
}

/** Nearly all prompts have more tokens than one per this number of bytes. */
const MOST_BYTES_PER_TOKEN = 16;

/** Returns the largest `max_tokens` at which a request fits into what is left of a limit; below 1: none. */
function longestCompletion(
  { promptTokens, price }: WorstCase,
  { unit, amount }: LeftOfLimit,
  choices: number,
): number {
  if (unit !== 'usd') return Math.floor((amount - promptTokens) / choices);
  const left = amount * 1000 - promptTokens * price.prompt;
  return Math.floor(left / (choices * price.completion));
}

/** The usage of a request that failed because of the service. */
const NOTHING: Consumption = { tokens: 0, pico: 0n, request: false };

/**
 * The usage of a request that an engine refused. It costs nothing, but the engine has rendered its prompt or compiled its
 * schemas, which a caller may not ask for without limit. `readRecentCounts` counts the same.
 */
const REFUSED: Consumption = { tokens: 0, pico: 0n, request: true };

/** Returns the plan of a caller. Throws a `ServiceError` `insufficient_quota` if it no longer exists. */
function planOf(plans: Plans, caller: AuthenticatedKey): Plan {
  const plan = plans.of(caller.plan, caller.accountLimits);
  if (plan !== null) return plan;
  throw new ServiceError(
    'insufficient_quota',
    'The plan of this account no longer exists. Contact the operator of this service.',
  );
}

/**
 * Counts a request that generates nothing against the requests per minute, and against no other limit. Returns the headers of
 * that limit. Rejects with a `ServiceError` `requests_per_minute` or `storage_unavailable`.
 */
export async function countRequest(
  { limiter, plans }: Accounting,
  requestId: string,
  caller: AuthenticatedKey,
  model: string,
): Promise<RateLimitHeaders> {
  const query = limitQuery(caller, planOf(plans, caller), model);
  const decision = await limiter.admit({
    ...query,
    planLimits: withoutRunning(query.planLimits),
    keyLimits: query.keyLimits && withoutRunning(query.keyLimits),
    requestId,
    worstTokens: 0,
    worstPico: 0n,
    shortest: () => ({ tokens: 0, pico: 0n }),
  });
  if (!decision.admitted) throw errorOf(decision.denial);
  limiter.release(decision.reservation, { tokens: 0, pico: 0n, request: true });
  return decision.headers.filter((_, index, all) => all[index - (index % 2)]?.endsWith('-requests'));
}

function errorOf({ code, message, retryAfterMs }: Denial): ServiceError {
  return new ServiceError(code, message, retryAfterMs === null ? {} : { retryAfterMs });
}

/** The limiter recognizes limits by their objects. */
const WITHOUT_RUNNING = new WeakMap<PlanLimits, PlanLimits>();

/** Returns the limits without those of concurrent requests. */
function withoutRunning(limits: PlanLimits): PlanLimits {
  let others = WITHOUT_RUNNING.get(limits);
  if (others === undefined) {
    const { requestsInFlight: _, models = {}, ...rest } = limits;
    const ofModels = Object.entries(models).map(([id, { requestsInFlight: __, ...own }]) => [id, own]);
    others = { ...rest, models: Object.fromEntries(ofModels) as PlanLimits['models'] };
    WITHOUT_RUNNING.set(limits, others);
  }
  return others;
}

/** Returns the rate limit headers for a request that was refused before admission. */
export async function currentHeaders(
  { limiter, plans }: Accounting,
  caller: AuthenticatedKey,
  model: string | null,
): Promise<readonly string[]> {
  const plan = plans.of(caller.plan, caller.accountLimits);
  return plan === null ? [] : await limiter.currentHeaders(limitQuery(caller, plan, model ?? ''));
}

function limitQuery(caller: AuthenticatedKey, plan: Plan, model: string): LimitQuery {
  return {
    accountId: caller.accountId,
    keyId: caller.id,
    model,
    plan: caller.accountLimits === null ? plan.name : null,
    planLimits: plan.limits,
    keyLimits: caller.limits,
  };
}

/** The maximum that a request can use. */
export interface WorstCase {
  promptTokens: number;
  completionTokens: number;
  /**
   * Prompt and completion tokens together. Can be less than the sum of both maximums, because they share the context.
   */
  tokens: number;
  /** Pico-dollars. */
  pico: bigint;
  /** The prices when it was computed, which the request keeps. */
  price: ConfiguredModel['price'];
}

/**
 * Computes the maximum without tokenizing the prompt. A token has at least one byte, prompt and completion share the
 * context, and a completion is at most as long as requested and as the model allows. The prices determine whether a
 * longer prompt or a longer completion costs more. Cached tokens are unknown, and never cost more than others.
 * `counted`: the tokens of the only prompt, if they are known.
 */
export function worstCase(
  request: GenerationRequest,
  model: ConfiguredModel,
  counted: number | null = null,
): WorstCase {
  const card = model.card();
  const context = card?.context_length ?? UNKNOWN_CONTEXT;
  const longest = Math.min(request.maxTokens ?? Infinity, card?.max_completion_tokens ?? context, context);
  const { choices } = request;
  const { price } = model;
  const all: WorstCase = { promptTokens: 0, completionTokens: 0, tokens: 0, pico: 0n, price };
  for (const tokens of counted === null ? promptTokenBounds(request, context) : [counted]) {
    const one = maximumOf(tokens, choices, longest, context, price);
    all.promptTokens += one.promptTokens;
    all.completionTokens += one.completionTokens;
    all.tokens += one.tokens;
    all.pico += one.pico;
  }
  return all;
}

/** Returns the worst case of the request with a `max_tokens` of at most 1. */
export function shortestCase(
  request: GenerationRequest,
  model: ConfiguredModel,
  counted: number | null,
): { tokens: number; pico: bigint } {
  const { tokens, pico } = worstCase(
    { ...request, maxTokens: Math.min(request.maxTokens ?? 1, 1) },
    model,
    counted,
  );
  return { tokens, pico };
}

/** Limits usage to the worst case. Returns null if the usage does not exceed it. */
export function clampUsage(usage: Usage, worst: WorstCase): Usage | null {
  const { price } = worst;
  const promptTokens = Math.min(usage.promptTokens, worst.promptTokens);
  let completionTokens = Math.min(
    usage.completionTokens,
    worst.completionTokens,
    worst.tokens - promptTokens,
  );
  const cachedTokens = Math.min(usage.cachedTokens, promptTokens);
  // As if nothing were cached: cached tokens lower the cost, not the usage that was reserved.
  const left = worst.pico - costOf({ promptTokens, cachedTokens: 0, completionTokens: 0 }, price);
  if (price.completion > 0) {
    completionTokens = Math.min(completionTokens, Number(left / BigInt(price.completion)));
  }
  if (
    promptTokens === usage.promptTokens &&
    cachedTokens === usage.cachedTokens &&
    completionTokens === usage.completionTokens
  ) {
    return null;
  }
  return {
    promptTokens,
    completionTokens,
    cachedTokens,
    reasoningTokens: Math.min(usage.reasoningTokens, completionTokens),
  };
}

/**
 * Returns the maximum of two cases: the longest prompt with the completion that still fits into the context, and the
 * longest completion with the prompt that still fits.
 */
function maximumOf(
  prompt: number,
  choices: number,
  longest: number,
  context: number,
  price: ConfiguredModel['price'],
): Omit<WorstCase, 'price'> {
  const promptTokens = Math.min(prompt, context);
  const short = amountsOf(promptTokens, Math.min(longest, context - promptTokens) * choices, price);
  const long = amountsOf(Math.min(promptTokens, context - longest), longest * choices, price);
  return {
    promptTokens,
    completionTokens: longest * choices,
    tokens: Math.max(short.tokens, long.tokens),
    pico: short.pico > long.pico ? short.pico : long.pico,
  };
}

function amountsOf(promptTokens: number, completionTokens: number, price: ConfiguredModel['price']) {
  return {
    tokens: promptTokens + completionTokens,
    pico: costOf({ promptTokens, cachedTokens: 0, completionTokens }, price),
  };
}
