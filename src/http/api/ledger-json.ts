import { z } from 'zod';
import { usdText, type CostLine } from '../../accounts/ledger/cost.ts';
import { DAY_MS } from '../../accounts/ledger/days.ts';
import type { Receipt } from '../../accounts/ledger/receipt.ts';
import type { LedgerRecord } from '../../accounts/ledger/record.ts';
import type { Percentiles, UsageRow } from '../../accounts/ledger/usage.ts';
import { LIMIT_WORDS } from './limits-json.ts';
import { component, iso, time, usd } from './schemas.ts';

const tokens = z.int();
const perMillion = z.string().describe('USD per million tokens, a decimal string.');

/** A row of the ledger. */
export const request = component(
  'Request',
  z.object({
    id: z.string().describe('Ours, a UUIDv7: `x-request-id`.'),
    client_request_id: z.string().nullable().describe("The caller's own: `x-client-request-id`."),
    account_id: z.string(),
    key_id: z.string(),
    endpoint: z.enum(['chat', 'text']),
    model: z.string(),
    streamed: z.boolean(),
    state: z
      .enum(['open', 'settled', 'interrupted'])
      .describe('`open`: it runs. `interrupted`: the copy of the service that ran it died or was stopped.'),
    plan: z.string().describe('The plan it was held against.'),
    replica: z.string().nullable(),
    attempts: z.int().describe('Replicas it was given to, refusals included.'),
    started_at: time,
    slot_at: time.nullable().describe('When the engine gave it a slot.'),
    first_token_at: time.nullable(),
    ended_at: time.nullable().describe('Null while it runs, and where nobody knows.'),
    prompt_tokens: tokens,
    cached_tokens: tokens.describe('Prompt tokens that a prefix cache held.'),
    completion_tokens: tokens,
    usage_source: z.enum(['engine', 'estimated']).nullable().describe('Where the counts come from.'),
    billed: z
      .boolean()
      .describe('Whether the caller pays, told once it has ended: not for what our fault ended.'),
    price: z.object({ prompt: perMillion, completion: perMillion }).describe('When it started.'),
    cost_usd: usd,
    finish_reason: z.string().nullable(),
    error_code: z.string().nullable().describe('Code of the error it ended with, or `hung_up`.'),
    http_status: z.int().nullable(),
    delivered: z.boolean().nullable().describe('Whether the caller was still there; null: not known.'),
    checkpoint_at: time.nullable().describe('When its counts were last written before it ended.'),
  }),
);

/** As a row of the ledger is answered. */
export type RequestJson = z.input<typeof request>;

const amount = z
  .union([z.int(), z.string()])
  .describe('Requests or tokens; for `usd_per_month` USD, a decimal string.');

/** What every limit says of itself. */
export const limitFields = {
  scope: z.enum(['account', 'key']).describe("Whether it is the account's plan that sets it, or the key."),
  model: z.string().nullable().describe('Null: all models.'),
  limit: z.enum(Object.values(LIMIT_WORDS)),
  bound: amount,
};

const heldLimit = component('HeldLimit', z.object({ ...limitFields, left: amount }));

const milliseconds = z.int().nullable();

/** All that is known of one request. */
export const receipt = component(
  'Receipt',
  z.object({
    request,
    cost: z
      .array(
        z.object({
          what: z
            .enum(['prompt', 'completion', 'waived'])
            .describe('`waived` takes back what a fault of ours ended.'),
          tokens,
          usd_per_million: perMillion,
          usd,
        }),
      )
      .describe('How the cost came about: the lines add up to it. None while the request runs.'),
    limits: z.array(heldLimit).describe('The limits it was held against, and what it left of each.'),
    stages: z
      .object({ queue_ms: milliseconds, prefill_ms: milliseconds, decode_ms: milliseconds })
      .describe('How long each took; null: it did not come to its end, or is not known.'),
    retries: z.int().describe('How often another replica got it after one had refused it.'),
    interrupted: z.boolean().describe('Whether its counts are those of the last checkpoint.'),
  }),
);

export type ReceiptJson = z.input<typeof receipt>;

const percentiles = z.object({ p50: z.number(), p95: z.number() }).nullable();

/** Sums over days. */
export const usageRow = component(
  'UsageRow',
  z.object({
    day: z
      .string()
      .meta({ format: 'date' })
      .nullable()
      .describe('A day in UTC. What was not asked for is null.'),
    model: z.string().nullable(),
    key_id: z.string().nullable(),
    account_id: z.string().nullable(),
    requests: z.int(),
    errors: z.int().describe('Those that ended with an error.'),
    aborted: z.int().describe('Those whose caller hung up.'),
    interrupted: z.int(),
    prompt_tokens: tokens,
    cached_tokens: tokens,
    completion_tokens: tokens,
    billed_tokens: tokens.describe('Prompt and completion tokens that are paid for.'),
    cost_usd: usd,
    ttft_ms: percentiles.describe('Time to the first token, at most 2% off; null: no answer had one.'),
    tokens_per_second: percentiles.describe('After the first one, at most 2% off.'),
  }),
);

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
    started_at: iso(record.startedAt),
    slot_at: iso(record.slotAt),
    first_token_at: iso(record.firstTokenAt),
    ended_at: iso(record.endedAt),
    prompt_tokens: record.promptTokens,
    cached_tokens: record.cachedTokens,
    completion_tokens: record.completionTokens,
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

export function receiptJson({ request, cost, heldAgainst, stages, ...rest }: Receipt): ReceiptJson {
  return {
    request: requestJson(request),
    cost: cost.map(costLineJson),
    limits: heldAgainst.map((held) => ({ ...held, limit: LIMIT_WORDS[held.limit] })),
    stages: { queue_ms: stages.queueMs, prefill_ms: stages.prefillMs, decode_ms: stages.decodeMs },
    retries: rest.retries,
    interrupted: rest.interrupted,
  };
}

export function usageJson(row: UsageRow): UsageJson {
  return {
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
    billed_tokens: row.billedTokens,
    cost_usd: usdText(row.costPico),
    ttft_ms: percentilesJson(row.ttftMs),
    tokens_per_second: percentilesJson(row.tokensPerSecond),
  };
}

function costLineJson({ what, tokens, pricePico, pico }: CostLine): ReceiptJson['cost'][number] {
  return { what, tokens, usd_per_million: perMillionText(pricePico), usd: usdText(pico) };
}

/** A price as the configuration has it, of pico-dollars a token. */
function perMillionText(picoPerToken: number): string {
  return usdText(BigInt(picoPerToken) * 1_000_000n);
}

function dayText(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}

/** Digits beyond the fifth mean nothing in what is 2% off, and the fifth adds nothing to that. */
function percentilesJson(values: Percentiles | null): UsageJson['ttft_ms'] {
  const round = (value: number) => Number(value.toPrecision(5));
  return values && { p50: round(values.p50), p95: round(values.p95) };
}
