import type { PlanLimits } from '../../config/plan.ts';
import { KINDS, type LimitKind } from './kinds.ts';
import type { Demand } from './limiter.ts';
import { nanoOfUsd } from './money.ts';

/**
 * Parts per request or token. Buckets count used parts. With this number, a limit of one per minute refills one part per
 * millisecond, and all sums are integers below 2^53.
 */
export const PARTS = 60_000;

/** Largest limit per minute that the parts can count. */
const MAX_PER_MINUTE = 100_000_000_000;

export interface Limit {
  readonly kind: LimitKind;
  /** Requests, tokens or nano-dollars; the capacity of a bucket. */
  readonly bound: number;
  /** A bucket refills this many parts per millisecond; 0 for other kinds. */
  readonly perMinute: number;
}

/** The limits of an account or a key, for all models or one. */
export interface ScopeLimits {
  readonly holder: 'account' | 'key';
  /** Null: all models. */
  readonly model: string | null;
  /** In the order of `KINDS`; null: no such limit. */
  readonly limits: readonly (Limit | null)[];
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
export function scopeId(holder: 'account' | 'key', keyId: string, model: string | null): string {
  if (holder === 'account') return model === null ? 'a' : `a:${model}`;
  return model === null ? `k:${keyId}` : `k:${keyId}:${model}`;
}

type ByModel = Map<string, readonly ScopeLimits[]>;

/** Cached scopes. The keys are the limits objects of plans and API keys. */
const CACHE = { account: new WeakMap<PlanLimits, ByModel>(), key: new WeakMap<PlanLimits, ByModel>() };

function scopesIn(holder: 'account' | 'key', limits: PlanLimits, model: string): readonly ScopeLimits[] {
  let byModel = CACHE[holder].get(limits);
  if (byModel === undefined) CACHE[holder].set(limits, (byModel = new Map()));
  // Models without their own limits share one entry.
  const own = limits.models && Object.hasOwn(limits.models, model) ? limits.models[model] : undefined;
  const entry = own ? model : '';
  let scopes = byModel.get(entry);
  if (scopes === undefined) {
    // The scope with `model: null` is the same object in all lists.
    const all = entry === '' ? read(holder, null, limits) : scopesIn(holder, limits, '');
    scopes = own ? [...all, ...read(holder, model, own)] : all;
    byModel.set(entry, scopes);
  }
  return scopes;
}

function read(
  holder: 'account' | 'key',
  model: string | null,
  own: Omit<PlanLimits, 'models'>,
): ScopeLimits[] {
  const limits = KINDS.map((kind) => limitOf(kind, own));
  if (limits.every((limit) => limit === null)) return [];
  const refills = limits.map((limit) => (limit?.perMinute ? (limit.bound * PARTS) / limit.perMinute : 0));
  return [{ holder, model, limits, refillMs: Math.ceil(Math.max(PARTS, ...refills)) }];
}

function limitOf(kind: LimitKind, limits: Omit<PlanLimits, 'models'>): Limit | null {
  const value = limits[kind.name];
  if (value === undefined) return null;
  const bound = typeof value === 'string' ? nanoOfUsd(value) : value;
  if (kind.window !== 'minute') return { kind, bound, perMinute: 0 };
  const perMinute = Math.min(bound, MAX_PER_MINUTE);
  return { kind, bound: Math.min(limits.burst?.[kind.unit] ?? perMinute, MAX_PER_MINUTE), perMinute };
}
