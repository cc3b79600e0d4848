import { CALENDAR, formatDuration, periodAround } from './calendar.ts';
import {
  amountIn,
  bucketAmount,
  leftOf,
  waitFor,
  type Count,
  type RequestAmounts,
  type ScopeCounts,
  type Wait,
} from './counts.ts';
import type { Unit } from './kinds.ts';
import type { Denial } from './limiter.ts';
import { nanoOfPico, usdOfNano } from './money.ts';
import type { Limit, ScopeLimits } from './scope-limits.ts';

/**
 * Returns the denial with the longest wait, so that a caller who waits is then admitted; null: all limits have room. A
 * limit that the request can never satisfy takes precedence.
 */
export function denialOf(
  plan: string | null,
  scopes: readonly ScopeCounts[],
  amounts: RequestAmounts,
  nowMs: number,
): Denial | null {
  let worst: { scope: ScopeLimits; limit: Limit; count: Count; wait: Wait } | null = null;
  for (const { limits: scope, counts } of scopes) {
    for (const count of counts) {
      const { limit } = count;
      if (limit === null) continue;
      const wait = waitFor(limit, count, amounts, nowMs);
      if (wait === null) continue;
      if (worst === null || (wait.ms ?? Infinity) > (worst.wait.ms ?? Infinity)) {
        worst = { scope, limit, count, wait };
      }
    }
  }
  if (worst === null) return null;
  const { scope, limit, count, wait } = worst;
  const holder = plan === null ? 'This account' : `The plan "${plan}"`;
  const allows = `${scope.holder === 'account' ? holder : 'This key'} allows`;
  const { unit } = limit.kind;
  const isCalendar = limit.kind.window in CALENDAR;
  const waits = wait.until === 'request ends';
  const left = Math.floor((limit.bound - count.settled) / amounts.weight) - (waits ? count.reserved : 0);
  return {
    code: limit.kind.code,
    limit: limit.kind.name,
    scope: scope.holder,
    model: scope.model,
    message: `${allows} ${explanation(scope.model, limit, count, wait, amounts, nowMs)}`,
    retryAfterMs: wait.ms,
    left: isCalendar ? { unit, amount: left, waits } : null,
  };
}

/** Returns the bound and what the request lacks. */
function explanation(
  model: string | null,
  limit: Limit,
  count: Count,
  wait: Wait,
  amounts: RequestAmounts,
  nowMs: number,
): string {
  const { kind, bound, perMinute } = limit;
  const ofModel = model === null ? '' : ` for ${model}`;
  if (kind.window === 'minute') {
    const burst = bound === perMinute ? '' : ` (burst ${bound})`;
    const allowed = `${text(kind.unit, perMinute)} per minute${burst}${ofModel}`;
    const reserved = bucketAmount(limit, amounts) * amounts.weight;
    const lacks =
      kind.unit === 'requests'
        ? ', and all are used.'
        : `. ${leftOf(limit, count)} are left, and this request reserves ${reserved}.`;
    return `${allowed}${lacks} Try again in ${formatDuration(wait.ms ?? 0)}.`;
  }
  const { settled, reserved } = count;
  if (kind.window === 'running') {
    const running = `${reserved} ${reserved === 1 ? 'is' : 'are'} running`;
    return `${plural(bound, 'concurrent request')}${ofModel}, and ${running}. Try again when one has ended.`;
  }
  const of = (amount: number) => text(kind.unit, amount);
  const allowed = `${of(bound)} per UTC ${kind.window}`;
  const requested = `this request may use up to ${of(amounts[kind.unit])}.`;
  const { tokens, pico } = amounts.shortest();
  const shortest = amountIn(kind.unit, { requests: 1, tokens, usd: nanoOfPico(pico) });
  if (wait.until === 'never') {
    if (shortest <= bound) return `${allowed}, and ${requested} Lower \`max_tokens\`.`;
    const even =
      shortest === amounts[kind.unit]
        ? ''
        : `Even with a \`max_tokens\` of 1, it may use up to ${of(shortest)}. `;
    return `${allowed}, and ${requested} ${even}Shorten the prompt, or ask for a higher limit.`;
  }
  const fitsIfShorter = settled + (reserved + shortest) * amounts.weight <= bound;
  const remedy =
    wait.until === 'request ends'
      ? `${fitsIfShorter ? 'Lower `max_tokens`, or try' : 'Try'} again when a running request has ended.`
      : `The limit resets at ${new Date(periodAround(kind.window, nowMs).toMs).toISOString()}.`;
  return `${allowed}: ${of(settled)} used, ${of(reserved)} reserved for running requests, and ${requested} ${remedy}`;
}

function text(unit: Unit, amount: number): string {
  return unit === 'usd' ? `$${usdOfNano(amount)}` : plural(amount, unit.slice(0, -1));
}

function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
