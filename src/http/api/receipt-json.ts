import type { z } from 'zod';
import { costLines, perMillionText, usdText } from '../../accounts/ledger/cost.ts';
import { requestJson, type RequestRow } from '../../accounts/ledger/request-json.ts';
import { readAppliedLimits } from '../../accounts/limits/limit-status.ts';
import type { OwnerNames } from '../../accounts/names.ts';
import { readModelInput } from '../../inference/model-input.ts';
import type { PrefillProgress } from '../../routing/prefill.ts';
import type { receipt } from './contract/ledger.ts';
import { apiName } from './contract/limits.ts';
import { explainCacheMiss } from './cache-miss.ts';

export type ReceiptJson = z.input<typeof receipt>;

/** Returns the receipt of a request. `prefill`: the progress of its prompt. */
export function receiptJson(
  row: RequestRow & OwnerNames,
  prefill: PrefillProgress | null = null,
): ReceiptJson {
  const usage = {
    promptTokens: row.prompt_tokens,
    cachedTokens: row.cached_tokens,
    completionTokens: row.completion_tokens,
  };
  const price = {
    prompt: row.price_prompt,
    completion: row.price_completion,
    inputCacheRead: row.price_input_cache_read,
  };
  const lines = row.state === 'open' ? [] : costLines(usage, price, row.billed === 1);
  return {
    request: { ...requestJson(row), key_name: row.key_name, account_name: row.account_name },
    cost: lines.map(({ what, tokens, pricePico, pico }) => ({
      what,
      tokens,
      usd_per_million: perMillionText(pricePico),
      usd: usdText(pico),
    })),
    limits: readAppliedLimits(row.limits).map((applied) => ({
      ...applied,
      limit: apiName(applied.limit),
    })),
    model_input: readModelInput(row.model_input),
    cache_miss: explainCacheMiss(row),
    stages: {
      queue_ms: between(row.started_at, row.slot_at),
      prefill_ms: between(row.slot_at, row.first_token_at),
      decode_ms: between(row.first_token_at, row.ended_at),
    },
    prefill: prefillJson(prefill),
    retries: Math.max(0, row.attempts - 1),
    interrupted: row.state === 'interrupted',
  };
}

export function prefillJson(prefill: PrefillProgress | null): ReceiptJson['prefill'] {
  if (prefill === null) return null;
  return { prompt_tokens: prefill.promptTokens, done_tokens: prefill.doneTokens, left_ms: prefill.leftMs };
}

function between(from: number | null, to: number | null): number | null {
  return from === null || to === null ? null : to - from;
}
