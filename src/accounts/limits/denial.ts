import { endOfDay, endOfMonth, formatDuration } from './calendar.ts';
import {
  bucketLeft,
  bucketWaitMs,
  mayRun,
  reservedTokens,
  type RequestAmounts,
  type ScopeCounts,
} from './counts.ts';
import type { Denial } from './limits.ts';
import { usdOfNano } from './money.ts';
import type { ScopeLimits } from './scope-limits.ts';

/** Estimated wait for a running request to end, in milliseconds. */
const RUNNING_WAIT_MS = 1000;

/**
 * Returns the denial with the longest wait, so that a caller who waits is then admitted. A limit that the request
 * can never satisfy takes precedence.
 */
export function denialOf(
  plan: string,
  scopes: readonly ScopeLimits[],
  counts: readonly ScopeCounts[],
  amounts: RequestAmounts,
  nowMs: number,
): Denial {
  let worst: Denial | null = null;
  for (const [index, limits] of scopes.entries()) {
    const used = counts[index];
    if (used === undefined) continue;
    for (const denial of denialsIn(limits, used, amounts, { plan, nowMs })) {
      if (worst === null || waitOf(denial) > waitOf(worst)) worst = denial;
    }
  }
  if (worst === null) throw new Error('a request was refused although no limit is exceeded');
  return worst;
}

function waitOf({ retryAfterMs }: Denial): number {
  return retryAfterMs ?? Infinity;
}

interface DenialContext {
  plan: string;
  nowMs: number;
}

function* denialsIn(
  limits: ScopeLimits,
  counts: ScopeCounts,
  amounts: RequestAmounts,
  context: DenialContext,
): Iterable<Denial> {
  yield* minuteDenials(limits, counts, amounts, context);
  const who = subject(limits, context.plan);
  const { dayTokens, monthTokens, monthNano } = limits;
  const { daySettled, dayReserved, monthSettled, monthReserved, nanoSettled, nanoReserved } = counts;
  const { tokens, nano, weight } = amounts;
  const all = { who, weight, nowMs: context.nowMs };
  const day = { period: 'day', ends: endOfDay(context.nowMs) } as const;
  const month = { period: 'month', ends: endOfMonth(context.nowMs) } as const;
  if (dayTokens !== null) {
    const used = { settled: daySettled, reserved: dayReserved, requested: tokens };
    yield* calendarDenial({
      ...all,
      ...day,
      limit: 'tokensPerDay',
      bound: dayTokens,
      ...used,
      format: tokensText,
    });
  }
  if (monthTokens !== null) {
    const used = { settled: monthSettled, reserved: monthReserved, requested: tokens };
    yield* calendarDenial({
      ...all,
      ...month,
      limit: 'tokensPerMonth',
      bound: monthTokens,
      ...used,
      format: tokensText,
    });
  }
  if (monthNano !== null) {
    const used = { settled: nanoSettled, reserved: nanoReserved, requested: nano };
    yield* calendarDenial({
      ...all,
      ...month,
      limit: 'usdPerMonth',
      bound: monthNano,
      ...used,
      format: usdText,
    });
  }
}

function* minuteDenials(
  limits: ScopeLimits,
  counts: ScopeCounts,
  amounts: RequestAmounts,
  { plan }: DenialContext,
): Iterable<Denial> {
  const { requests, tokens, inFlight } = limits;
  const who = subject(limits, plan);
  const model = ofModel(limits);
  if (requests !== null) {
    const retryAfterMs = bucketWaitMs(requests, counts.requestsSpent, amounts.weight);
    const burst = requests.capacity === requests.perMinute ? '' : ` (burst ${requests.capacity})`;
    const message = `${who} ${plural(requests.perMinute, 'request')} per minute${burst}${model}, and all are used. Try again in ${formatDuration(retryAfterMs)}.`;
    if (retryAfterMs > 0)
      yield { code: 'requests_per_minute', limit: 'requestsPerMinute', message, retryAfterMs };
  }
  if (tokens !== null) {
    const reserved = reservedTokens(tokens, amounts);
    const retryAfterMs = bucketWaitMs(tokens, counts.tokensSpent, reserved);
    const left = bucketLeft(tokens, counts.tokensSpent);
    const burst = tokens.capacity === tokens.perMinute ? '' : ` (burst ${tokens.capacity})`;
    const message = `${who} ${plural(tokens.perMinute, 'token')} per minute${burst}${model}. ${left} are left, and this request reserves ${reserved}. Try again in ${formatDuration(retryAfterMs)}.`;
    if (retryAfterMs > 0)
      yield { code: 'tokens_per_minute', limit: 'tokensPerMinute', message, retryAfterMs };
  }
  if (inFlight !== null && !mayRun(inFlight, counts.running, amounts.weight)) {
    const message = `${who} ${plural(inFlight, 'concurrent request')}${model}, and ${counts.running} ${counts.running === 1 ? 'is' : 'are'} running. Try again when one has ended.`;
    yield { code: 'concurrent_requests', limit: 'requestsInFlight', message, retryAfterMs: RUNNING_WAIT_MS };
  }
}

interface CalendarLimit {
  limit: 'tokensPerDay' | 'tokensPerMonth' | 'usdPerMonth';
  who: string;
  bound: number;
  settled: number;
  reserved: number;
  /** The maximum that the request can use. */
  requested: number;
  weight: number;
  nowMs: number;
  format: (amount: number) => string;
  period: 'day' | 'month';
  /** Unix milliseconds. */
  ends: number;
}

function* calendarDenial(calendar: CalendarLimit): Iterable<Denial> {
  const { limit, who, bound, settled, reserved, requested, weight, nowMs, format, period, ends } = calendar;
  if (settled + (reserved + requested) * weight <= bound) return;
  const code = 'insufficient_quota';
  const allows = `${who} ${format(bound)} per UTC ${period}`;
  if (requested > bound) {
    const message = `${allows}, and this request may use up to ${format(requested)}. Lower \`max_tokens\`.`;
    yield { code, limit, message, retryAfterMs: null };
    return;
  }
  const used = `${format(settled)} used, ${format(reserved)} reserved for running requests, and this request may use up to ${format(requested)}.`;
  // The request would fit without the running requests, at a weight of 1. The running requests usually end, and the
  // instances usually share counters again, before the period ends.
  if (settled + requested <= bound) {
    const message = `${allows}: ${used} Lower \`max_tokens\`, or try again when a running request has ended.`;
    yield { code, limit, message, retryAfterMs: RUNNING_WAIT_MS };
    return;
  }
  const message = `${allows}: ${used} The limit resets at ${new Date(ends).toISOString()}.`;
  yield { code, limit, message, retryAfterMs: ends - nowMs };
}

function subject({ scope }: ScopeLimits, plan: string): string {
  return scope === 'account' ? `The plan "${plan}" allows` : 'This key allows';
}

function ofModel({ model }: ScopeLimits): string {
  return model === null ? '' : ` for ${model}`;
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

function tokensText(tokens: number): string {
  return plural(tokens, 'token');
}

function usdText(nano: number): string {
  return `$${usdOfNano(nano)}`;
}
