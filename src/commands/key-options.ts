import { InvalidArgumentError } from 'commander';
import { KINDS } from '../accounts/limits/kinds.ts';
import { limitFields, limitsSchema, modelId, type PlanLimits } from '../config/plan.ts';

/** A change of one limit, from `--limit` or `--budget`. */
export interface LimitEdit {
  /** Path in the limits of a plan, such as `['usdPerMonth']` or `['models', 'a/b', 'burst', 'tokens']`. */
  path: readonly string[];
  /** Null to remove the limit. */
  value: string | number | null;
}

/** The names that `--limit` accepts. */
export const LIMIT_OPTIONS: readonly string[] = Object.keys(limitFields).flatMap((name) =>
  name === 'burst' ? ['burst.requests', 'burst.tokens'] : [name],
);

/**
 * Parses `name=value` or `name@model=value`, where the value `none` removes the limit. Returns `before` with the new
 * edit appended, as commander expects of a repeatable option.
 */
export function parseLimit(text: string, before: readonly LimitEdit[] = []): LimitEdit[] {
  const [, name = '', model, value = ''] = /^([a-zA-Z.]+)(?:@([^=]+))?=(.*)$/.exec(text) ?? [];
  if (!LIMIT_OPTIONS.includes(name)) {
    throw new InvalidArgumentError(`Expected name=value, where name is one of ${LIMIT_OPTIONS.join(', ')}.`);
  }
  const path = [...(model === undefined ? [] : ['models', model]), ...name.split('.')];
  return [...before, checked({ path, value: valueOf(name, value) })];
}

/** Parses USD per month, or `none`. Throws commander's error. */
export function parseBudget(text: string): LimitEdit {
  return checked({ path: ['usdPerMonth'], value: text === 'none' ? null : text });
}

/** Applies the edits in order. Returns null if no limits remain. */
export function editLimits(current: PlanLimits | null, edits: readonly LimitEdit[]): PlanLimits | null {
  const limits: Tree = structuredClone(current ?? {});
  for (const { path, value } of edits) setAt(limits, path, value);
  return Object.keys(limits).length === 0 ? null : limitsSchema.parse(limits);
}

type Tree = { [name: string]: unknown };

/** Sets the value at a path, or removes it if `value` is null. Removes objects that become empty. */
function setAt(tree: Tree, [name = '', ...rest]: readonly string[], value: string | number | null): void {
  if (rest.length === 0) {
    if (value === null) delete tree[name];
    else tree[name] = value;
    return;
  }
  // All values on the way to the last segment are objects.
  const inner = { ...(tree[name] as Tree | undefined) };
  setAt(inner, rest, value);
  if (Object.keys(inner).length === 0) delete tree[name];
  else tree[name] = inner;
}

function valueOf(name: string, text: string): string | number | null {
  if (text === 'none') return null;
  const isMoney = KINDS.some((kind) => kind.name === name && kind.unit === 'usd');
  return !isMoney && /^\d{1,15}$/.test(text) ? Number(text) : text;
}

/** Checks the limit against the schema of plans. Throws commander's error. */
function checked(edit: LimitEdit): LimitEdit {
  const limits: Tree = {};
  setAt(limits, edit.path, edit.value);
  const { error } = limitsSchema.safeParse(limits);
  if (error === undefined) return edit;
  const [issue] = error.issues;
  throw new InvalidArgumentError(`${issue?.path.join('.')}: ${issue?.message}.`);
}

const UNITS_MS: ReadonlyMap<string, number> = new Map([
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
  ['w', 604_800_000],
]);

/** Ten years, in milliseconds. */
const MAX_MS = 3650 * 86_400_000;

/** Converts `30d`, `12h`, `90m`, `45s` or `2w` to milliseconds, up to ten years. Throws commander's error. */
export function parseDuration(text: string): number {
  const [, digits = '', unit = ''] = /^(\d{1,9})([smhdw])$/.exec(text) ?? [];
  const duration = Number(digits) * (UNITS_MS.get(unit) ?? 0);
  if (duration <= 0 || duration > MAX_MS) {
    throw new InvalidArgumentError('Expected a duration such as 30d, 12h, 90m, 45s or 2w, at most 3650d.');
  }
  return duration;
}

/**
 * Like `parseDuration`, but also accepts `never`. Returns Infinity for it, because commander turns null into an empty
 * string.
 */
export function parseExpiry(text: string): number {
  return text === 'never' ? Infinity : parseDuration(text);
}

/**
 * Parses comma-separated model IDs. Returns an empty list for `all`, because commander turns null into an empty string.
 */
export function parseModels(text: string): string[] {
  if (text === 'all') return [];
  const ids = text.split(',').map((id) => id.trim());
  if (ids.every((id) => modelId.safeParse(id).success)) return ids;
  throw new InvalidArgumentError('Expected model IDs such as HuggingFaceTB/SmolLM2-135M-Instruct.');
}
