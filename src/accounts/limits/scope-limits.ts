import type { PlanLimits } from '../../config/plan.ts';
import type { Demand, LimitName } from './limits.ts';
import { nanoOfUsd } from './money.ts';

/**
 * A bucket counts what is missing from it, in units of which one is 1/60,000 of a request or token: a limit of one a
 * minute then refills one unit a millisecond, and every sum is a whole number below 2^53.
 */
export const UNITS = 60_000;

/** Largest number of a minute's limit that its units can count. */
const MOST_A_MINUTE = 100_000_000_000;

/** A limit of a minute: refills `perMinute` units each millisecond, up to `capacity` requests or tokens. */
export interface Bucket {
  readonly perMinute: number;
  readonly capacity: number;
}

/** The limits of an account or a key, for all models together or for one; null: none of that kind. */
export interface ScopeLimits {
  readonly scope: 'account' | 'key';
  /** Null: all models. */
  readonly model: string | null;
  readonly requests: Bucket | null;
  readonly tokens: Bucket | null;
  readonly inFlight: number | null;
  readonly dayTokens: number | null;
  readonly monthTokens: number | null;
  /** Nano-dollars. */
  readonly monthNano: number | null;
  /** How long it takes until an empty bucket is full, in milliseconds; at least a minute. */
  readonly refillMs: number;
}

/**
 * What a request is held against, at most four: the account and the key, each for all models and for the one it
 * names (`''`: none).
 */
export function scopesOf(demand: Holder): readonly ScopeLimits[] {
  const account = scopesIn('account', demand.planLimits, demand.model);
  if (demand.keyLimits === null) return account;
  return [...account, ...scopesIn('key', demand.keyLimits, demand.model)];
}

/** The same for every model that has limits of its own. */
export function scopesOfAllModels({ planLimits, keyLimits }: Holder): readonly ScopeLimits[] {
  const { models: ofPlan = {} } = planLimits;
  const { models: ofKey = {} } = keyLimits ?? {};
  const holders = [...new Set(['', ...Object.keys(ofPlan), ...Object.keys(ofKey)])].map((model) => {
    return scopesOf({ model, planLimits, keyLimits });
  });
  return [...new Set(holders.flat())];
}

type Holder = Pick<Demand, 'model' | 'planLimits' | 'keyLimits'>;

/** Tells the counters of an account's scopes apart. */
export function scopeId(scope: 'account' | 'key', keyId: string, model: string | null): string {
  if (scope === 'account') return model === null ? 'a' : `a:${model}`;
  return model === null ? `k:${keyId}` : `k:${keyId}:${model}`;
}

/** The tokens of a minute that a request takes before its tokens are counted; what it uses beyond them is a debt. */
export function minuteTokens(bucket: Bucket, worstTokens: number, reservedShare: number): number {
  return Math.min(worstTokens, largestShare(bucket, reservedShare));
}

/** The most that one request takes of a minute's tokens beforehand. */
export function largestShare(bucket: Bucket, reservedShare: number): number {
  return Math.max(1, Math.floor(bucket.capacity * reservedShare));
}

/** How the public names of limits stand in the fields above. */
export const LIMIT_NAMES = {
  requests: 'requestsPerMinute',
  tokens: 'tokensPerMinute',
  inFlight: 'requestsInFlight',
  dayTokens: 'tokensPerDay',
  monthTokens: 'tokensPerMonth',
  monthNano: 'usdPerMonth',
} as const satisfies Record<string, LimitName>;

type ByModel = Map<string, readonly ScopeLimits[]>;

/** Limits are read once for each object that holds them: a plan is one, and so is a key while it is known. */
const READ = { account: new WeakMap<PlanLimits, ByModel>(), key: new WeakMap<PlanLimits, ByModel>() };

function scopesIn(scope: 'account' | 'key', limits: PlanLimits, model: string): readonly ScopeLimits[] {
  let byModel = READ[scope].get(limits);
  if (byModel === undefined) READ[scope].set(limits, (byModel = new Map()));
  // Models without limits of their own share one entry: there are as many entries as the limits name models.
  const own = limits.models && Object.hasOwn(limits.models, model) ? limits.models[model] : undefined;
  const entry = own ? model : '';
  let scopes = byModel.get(entry);
  if (scopes === undefined) {
    // Every list has the same object for all models.
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

function bucket(perMinute: number | undefined, burst: number | undefined): Bucket | null {
  if (perMinute === undefined) return null;
  const rate = Math.min(perMinute, MOST_A_MINUTE);
  return { perMinute: rate, capacity: Math.min(burst ?? rate, MOST_A_MINUTE) };
}

function refillMs(limit: Bucket | null): number {
  return limit === null ? 0 : Math.ceil((limit.capacity * UNITS) / limit.perMinute);
}
