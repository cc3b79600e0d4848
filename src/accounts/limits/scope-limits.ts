import type { PlanLimits } from '../../config/plan.ts';
import type { Demand, LimitName } from './limits.ts';
import { nanoOfUsd } from './money.ts';

/**
 * Units per request or token. Buckets count used units. With this number, a limit of one per minute refills one unit
 * per millisecond, and all sums are integers below 2^53.
 */
export const UNITS = 60_000;

/** Largest limit per minute that the units can count. */
const MAX_PER_MINUTE = 100_000_000_000;

/** A token bucket: refills `perMinute` units per millisecond, up to `capacity` requests or tokens. */
export interface TokenBucket {
  readonly perMinute: number;
  readonly capacity: number;
}

/** The limits of an account or a key, for all models or one; null: no such limit. */
export interface ScopeLimits {
  readonly scope: 'account' | 'key';
  /** Null: all models. */
  readonly model: string | null;
  readonly requests: TokenBucket | null;
  readonly tokens: TokenBucket | null;
  readonly inFlight: number | null;
  readonly dayTokens: number | null;
  readonly monthTokens: number | null;
  /** Nano-dollars. */
  readonly monthNano: number | null;
  /** Milliseconds to fill an empty bucket; at least a minute. */
  readonly refillMs: number;
}

/**
 * Returns the scopes with limits that apply to a request, at most four: account and key, each for all models and for
 * the model of the request. The model `''` means none.
 */
export function scopesOf(demand: LimitHolder): readonly ScopeLimits[] {
  const account = scopesIn('account', demand.planLimits, demand.model);
  if (demand.keyLimits === null) return account;
  return [...account, ...scopesIn('key', demand.keyLimits, demand.model)];
}

/** Like `scopesOf`, but includes the scopes of every model that has its own limits. */
export function scopesOfAllModels({ planLimits, keyLimits }: LimitHolder): readonly ScopeLimits[] {
  const { models: ofPlan = {} } = planLimits;
  const { models: ofKey = {} } = keyLimits ?? {};
  const holders = [...new Set(['', ...Object.keys(ofPlan), ...Object.keys(ofKey)])].map((model) => {
    return scopesOf({ model, planLimits, keyLimits });
  });
  return [...new Set(holders.flat())];
}

type LimitHolder = Pick<Demand, 'model' | 'planLimits' | 'keyLimits'>;

/** Returns the ID of a scope within its account. */
export function scopeId(scope: 'account' | 'key', keyId: string, model: string | null): string {
  if (scope === 'account') return model === null ? 'a' : `a:${model}`;
  return model === null ? `k:${keyId}` : `k:${keyId}:${model}`;
}

/** Returns the tokens that a request reserves from a bucket. Usage beyond them becomes a debt of the bucket. */
export function minuteTokens(bucket: TokenBucket, worstTokens: number, reservedShare: number): number {
  return Math.min(worstTokens, largestShare(bucket, reservedShare));
}

/** Returns the maximum tokens that one request reserves from a bucket. */
export function largestShare(bucket: TokenBucket, reservedShare: number): number {
  return Math.max(1, Math.floor(bucket.capacity * reservedShare));
}

/** Public names of the limits in `ScopeLimits`. */
export const LIMIT_NAMES = {
  requests: 'requestsPerMinute',
  tokens: 'tokensPerMinute',
  inFlight: 'requestsInFlight',
  dayTokens: 'tokensPerDay',
  monthTokens: 'tokensPerMonth',
  monthNano: 'usdPerMonth',
} as const satisfies Record<string, LimitName>;

type ByModel = Map<string, readonly ScopeLimits[]>;

/** Cached scopes. The keys are the limits objects of plans and API keys. */
const CACHE = { account: new WeakMap<PlanLimits, ByModel>(), key: new WeakMap<PlanLimits, ByModel>() };

function scopesIn(scope: 'account' | 'key', limits: PlanLimits, model: string): readonly ScopeLimits[] {
  let byModel = CACHE[scope].get(limits);
  if (byModel === undefined) CACHE[scope].set(limits, (byModel = new Map()));
  // Models without their own limits share one entry.
  const own = limits.models && Object.hasOwn(limits.models, model) ? limits.models[model] : undefined;
  const entry = own ? model : '';
  let scopes = byModel.get(entry);
  if (scopes === undefined) {
    // The scope with `model: null` is the same object in all lists.
    const all = entry === '' ? read(scope, null, limits) : scopesIn(scope, limits, '');
    scopes = own ? [...all, ...read(scope, model, own)] : all;
    byModel.set(entry, scopes);
  }
  return scopes;
}

function read(
  scope: 'account' | 'key',
  model: string | null,
  limits: Omit<PlanLimits, 'models'>,
): ScopeLimits[] {
  const requests = bucket(limits.requestsPerMinute, limits.burst?.requests);
  const tokens = bucket(limits.tokensPerMinute, limits.burst?.tokens);
  const own = {
    requests,
    tokens,
    inFlight: limits.requestsInFlight ?? null,
    dayTokens: limits.tokensPerDay ?? null,
    monthTokens: limits.tokensPerMonth ?? null,
    monthNano: limits.usdPerMonth === undefined ? null : nanoOfUsd(limits.usdPerMonth),
  };
  if (Object.values(own).every((limit) => limit === null)) return [];
  return [{ scope, model, ...own, refillMs: Math.max(UNITS, refillMs(requests), refillMs(tokens)) }];
}

function bucket(perMinute: number | undefined, burst: number | undefined): TokenBucket | null {
  if (perMinute === undefined) return null;
  const rate = Math.min(perMinute, MAX_PER_MINUTE);
  return { perMinute: rate, capacity: Math.min(burst ?? rate, MAX_PER_MINUTE) };
}

function refillMs(limit: TokenBucket | null): number {
  return limit === null ? 0 : Math.ceil((limit.capacity * UNITS) / limit.perMinute);
}
