import { InvalidArgumentError, type Command } from 'commander';
import { MAX_MODELS } from '../accounts/bounds.ts';
import { KINDS } from '../accounts/limits/kinds.ts';
import { limitFields, limitsSchema, modelId, type PlanLimits } from '../config/plan.ts';
import { ServiceError } from '../core/errors.ts';

/** A change of one limit, from `--limit` or `--budget`. */
export interface LimitEdit {
  /** Path in the limits of a plan, such as `['usdPerMonth']` or `['models', 'a/b', 'burst', 'tokens']`. */
  path: readonly string[];
  /** Null to remove the limit. */
  value: string | number | null;
}

export const MODEL_EXAMPLE = 'HuggingFaceTB/SmolLM2-135M-Instruct';

/** The names that `--limit` accepts. */
export const LIMIT_OPTIONS: readonly string[] = Object.keys(limitFields).flatMap((name) =>
  name === 'burst' ? ['burst.requests', 'burst.tokens'] : [name],
);

export const LIMITS_HELP = `
Limit names:
  ${LIMIT_OPTIONS.join('\n  ')}
Use name@model=value to limit one model, and name=none to remove a limit.
`;

/** The options that change limits. */
export interface LimitFlags {
  limit?: LimitEdit[];
  budget?: LimitEdit;
}

export function addLimitOptions(command: Command): Command {
  return command
    .option('--limit <name=value>', 'a limit; can be repeated', parseLimit)
    .option('--budget <usd>', 'monthly budget in USD, same as --limit usdPerMonth=<usd>', parseBudget);
}

export function editsOf({ limit = [], budget }: LimitFlags): LimitEdit[] {
  return budget === undefined ? limit : [...limit, budget];
}

/**
 * Parses `name=value` or `name@model=value`, where the value `none` removes the limit. Returns `before` with the new
 * edit appended, as commander expects of a repeatable option.
 */
export function parseLimit(text: string, before: readonly LimitEdit[] = []): LimitEdit[] {
  const [, name = '', model, value = ''] = /^([a-zA-Z.]+)(?:@([^=]+))?=(.*)$/.exec(text) ?? [];
  if (!LIMIT_OPTIONS.includes(name)) {
    throw new InvalidArgumentError(`Expected name=value, where name is one of ${LIMIT_OPTIONS.join(', ')}.`);
  }
  if (model !== undefined && !modelId.safeParse(model).success) {
    throw new InvalidArgumentError(`Expected the ID of a model after \`@\`, such as ${MODEL_EXAMPLE}.`);
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
  if (Object.keys((limits.models as Tree | undefined) ?? {}).length > MAX_MODELS)
    throw new ServiceError('invalid_value', `Limits are for at most ${MAX_MODELS} models.`);
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

/** Formats limits as `requestsPerMinute 20, usdPerMonth 5; a/b: tokensPerDay 1000`. */
export function describeLimits({ models = {}, ...all }: PlanLimits): string {
  const parts = [joinLimits(all), ...Object.entries(models).map(([id, own]) => `${id}: ${joinLimits(own)}`)];
  return parts.filter((text) => text !== '').join('; ') || 'none';
}

function joinLimits({ burst = {}, ...limits }: Omit<PlanLimits, 'models'>): string {
  const bursts = Object.entries(burst).map(([unit, count]) => `burst of ${count} ${unit}`);
  return [...Object.entries(limits).map(([name, bound]) => `${name} ${bound}`), ...bursts].join(', ');
}
