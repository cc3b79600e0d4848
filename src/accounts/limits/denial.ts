import { endOfDay, endOfMonth } from './calendar.ts';
import { bucketLeft, bucketWaitMs, hasPlace, tokensTaken, type Ask, type Counts } from './counts.ts';
import { writeDuration } from './duration.ts';
import type { Denial } from './limits.ts';
import { usdOfNano } from './money.ts';
import type { ScopeLimits } from './scope-limits.ts';

/** How long to wait for what ends when a running request does, which nobody knows: an estimate, in milliseconds. */
const RUNNING_WAIT_MS = 1000;

/**
 * Which limit said no. When several do, the one with the longest wait, so that who waits it out is admitted; one
 * that the request can never meet comes first.
 */
export function denialOf(
  plan: string,
  scopes: readonly ScopeLimits[],
  counts: readonly Counts[],
  ask: Ask,
  nowMs: number,
): Denial {
  let worst: Denial | null = null;
  for (const [index, limits] of scopes.entries()) {
    const used = counts[index];
    if (used === undefined) continue;
    for (const denial of denialsIn(limits, used, ask, { plan, nowMs })) {
      if (worst === null || waitOf(denial) > waitOf(worst)) worst = denial;
    }
  }
  if (worst === null) throw new Error('a request was refused that every limit has room for');
  return worst;
}

function waitOf({ retryAfterMs }: Denial): number {
  return retryAfterMs ?? Infinity;
}

interface Asked {
  plan: string;
  nowMs: number;
}

function* denialsIn(limits: ScopeLimits, counts: Counts, ask: Ask, asked: Asked): Iterable<Denial> {
  yield* minuteDenials(limits, counts, ask, asked);
  const who = subject(limits, asked.plan);
  const { dayTokens, monthTokens, monthNano } = limits;
  const { tokens, nano, weight } = ask;
  if (dayTokens !== null) {
    const { daySettled: settled, dayHeld: held } = counts;
    yield* calendarDenial(
      { who, bound: dayTokens, settled, held, asked: tokens, weight, ...asked },
      { write: tokensText, period: 'day', ends: endOfDay(asked.nowMs) },
    );
  }
  if (monthTokens !== null) {
    const { monthSettled: settled, monthHeld: held } = counts;
    yield* calendarDenial(
      { who, bound: monthTokens, settled, held, asked: tokens, weight, ...asked },
      { write: tokensText, period: 'month', ends: endOfMonth(asked.nowMs) },
    );
  }
  if (monthNano !== null) {
    const { nanoSettled: settled, nanoHeld: held } = counts;
    yield* calendarDenial(
      { who, bound: monthNano, settled, held, asked: nano, weight, ...asked },
      { write: usdText, period: 'month', ends: endOfMonth(asked.nowMs) },
    );
  }
}

function* minuteDenials(limits: ScopeLimits, counts: Counts, ask: Ask, { plan }: Asked): Iterable<Denial> {
  const { requests, tokens, inFlight } = limits;
  const who = subject(limits, plan);
  const model = ofModel(limits);
  if (requests !== null) {
    const retryAfterMs = bucketWaitMs(requests, counts.requestsSpent, ask.weight);
    const burst = requests.capacity === requests.perMinute ? '' : `, ${requests.capacity} at once,`;
    const message = `${who} ${plural(requests.perMinute, 'request')} a minute${burst}${model} and none is left now. Try again in ${writeDuration(retryAfterMs)}.`;
    if (retryAfterMs > 0) yield { code: 'requests_per_minute', message, retryAfterMs };
  }
  if (tokens !== null) {
    const taken = tokensTaken(tokens, ask);
    const retryAfterMs = bucketWaitMs(tokens, counts.tokensSpent, taken);
    const left = bucketLeft(tokens, counts.tokensSpent);
    const burst = tokens.capacity === tokens.perMinute ? '' : `, ${tokens.capacity} at once,`;
    const message = `${who} ${plural(tokens.perMinute, 'token')} a minute${burst}${model}; ${left} are left now and this request sets ${taken} aside. Try again in ${writeDuration(retryAfterMs)}.`;
    if (retryAfterMs > 0) yield { code: 'tokens_per_minute', message, retryAfterMs };
  }
  if (inFlight !== null && !hasPlace(inFlight, counts.running, ask.weight)) {
    const message = `${who} ${plural(inFlight, 'request')} at once${model}, and ${counts.running} of yours are running. Try again when one has ended.`;
    yield { code: 'concurrent_requests', message, retryAfterMs: RUNNING_WAIT_MS };
  }
}

interface Quota {
  who: string;
  bound: number;
  settled: number;
  held: number;
  /** The most that the request can use. */
  asked: number;
  weight: number;
  nowMs: number;
}

interface Period {
  write: (amount: number) => string;
  period: 'day' | 'month';
  /** Unix milliseconds. */
  ends: number;
}

function* calendarDenial(quota: Quota, { write, period, ends }: Period): Iterable<Denial> {
  const { who, bound, settled, held, asked, weight, nowMs } = quota;
  if (settled + (held + asked) * weight <= bound) return;
  const code = 'insufficient_quota';
  const allows = `${who} ${write(bound)} a UTC ${period}`;
  if (asked > bound) {
    const message = `${allows}, and this request may use ${write(asked)}. Lower max_tokens.`;
    yield { code, message, retryAfterMs: null };
    return;
  }
  const used = `${write(settled)} used, ${write(held)} set aside for running requests, and this request may use ${write(asked)}.`;
  // What blocks it then is only what runs, or that copies count apart for a while: both end before the period.
  if (settled + asked <= bound) {
    const message = `${allows}: ${used} Lower max_tokens, or try again when one of the running requests has ended.`;
    yield { code, message, retryAfterMs: RUNNING_WAIT_MS };
    return;
  }
  const message = `${allows}: ${used} It starts anew at ${new Date(ends).toISOString()}.`;
  yield { code, message, retryAfterMs: ends - nowMs };
}

function subject({ scope }: ScopeLimits, plan: string): string {
  return scope === 'account' ? `The plan "${plan}" allows` : 'This key allows';
}

function ofModel({ model }: ScopeLimits): string {
  return model === null ? '' : ` of ${model}`;
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
