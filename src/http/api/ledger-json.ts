import type { z } from 'zod';
import { usdText, type CostLine } from '../../accounts/ledger/cost.ts';
import { DAY_MS } from '../../accounts/ledger/days.ts';
import type { Receipt } from '../../accounts/ledger/receipt.ts';
import type { LedgerRecord } from '../../accounts/ledger/record.ts';
import type { UsageRow } from '../../accounts/ledger/usage.ts';
import { HOUR_MS } from '../../accounts/ledger/usage-hours.ts';
import type { receipt, request, usageRow } from './contract/ledger.ts';
import { LIMIT_NAMES } from './contract/limits.ts';
import { iso } from './json.ts';

export type RequestJson = z.input<typeof request>;
export type ReceiptJson = z.input<typeof receipt>;
export type UsageJson = z.input<typeof usageRow>;

export function requestJson(record: LedgerRecord): RequestJson {
  return {
    id: record.id,
    client_request_id: record.clientRequestId,
    account_id: record.accountId,
    key_id: record.keyId,
    endpoint: record.endpoint,
    model: record.model,
    streamed: record.streamed,
    state: record.state,
    plan: record.plan,
    replica: record.replica,
    attempts: record.attempts,
    continued_after: record.continuedAfter,
    started_at: iso(record.startedAt),
    slot_at: iso(record.slotAt),
    first_token_at: iso(record.firstTokenAt),
    ended_at: iso(record.endedAt),
    prompt_tokens: record.promptTokens,
    cached_tokens: record.cachedTokens,
    completion_tokens: record.completionTokens,
    reasoning_tokens: record.reasoningTokens,
    usage_source: record.usageSource,
    billed: record.billed,
    price: { prompt: perMillionText(record.pricePrompt), completion: perMillionText(record.priceCompletion) },
    cost_usd: usdText(record.costPico),
    finish_reason: record.finishReason,
    error_code: record.errorCode,
    http_status: record.httpStatus,
    delivered: record.delivered,
    checkpoint_at: iso(record.checkpointAt),
  };
}

export function receiptJson({ request, cost, appliedLimits, stages, ...rest }: Receipt): ReceiptJson {
  return {
    request: requestJson(request),
    cost: cost.map(costLineJson),
    limits: appliedLimits.map((applied) => ({ ...applied, limit: LIMIT_NAMES[applied.limit] })),
    stages: { queue_ms: stages.queueMs, prefill_ms: stages.prefillMs, decode_ms: stages.decodeMs },
    retries: rest.retries,
    interrupted: rest.interrupted,
  };
}

export function usageJson(row: UsageRow): UsageJson {
  return {
    hour: row.hour === null ? null : iso(row.hour * HOUR_MS),
    day: row.day === null ? null : dayText(row.day),
    model: row.model,
    key_id: row.keyId,
    account_id: row.accountId,
    requests: row.requests,
    errors: row.errors,
    aborted: row.aborted,
    interrupted: row.interrupted,
    prompt_tokens: row.promptTokens,
    cached_tokens: row.cachedTokens,
    completion_tokens: row.completionTokens,
    reasoning_tokens: row.reasoningTokens,
    billed_tokens: row.billedTokens,
    cost_usd: usdText(row.costPico),
    ttft_ms: percentilesJson(row.ttftMs),
    tokens_per_second: percentilesJson(row.tokensPerSecond),
  };
}

function costLineJson({ what, tokens, pricePico, pico }: CostLine): ReceiptJson['cost'][number] {
  return { what, tokens, usd_per_million: perMillionText(pricePico), usd: usdText(pico) };
}

/** Formats pico-dollars per token as USD per million tokens. */
export function perMillionText(picoPerToken: number): string {
  return usdText(BigInt(picoPerToken) * 1_000_000n);
}

function dayText(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}

/** Rounds percentiles, which are accurate to 2%, to five digits. */
function percentilesJson<Values extends Readonly<Record<string, number>>>(
  values: Values | null,
): Values | null {
  if (values === null) return null;
  const rounded = Object.entries(values).map(([name, value]) => [name, Number(value.toPrecision(5))]);
  return Object.fromEntries(rounded) as Values;
}
