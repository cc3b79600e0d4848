import { InvalidArgumentError } from 'commander';
import { planSchema, type PlanLimits } from '../config/plan.ts';

/** One limit to be set, or taken away, as `--limit` and `--budget` say it. */
export interface LimitEdit {
  /** Where it stands in the limits of a plan: `['usdPerMonth']`, `['models', 'a/b', 'burst', 'tokens']`. */
  path: readonly string[];
  /** Null: the limit is taken away. */
  value: string | number | null;
}

/** The names that `--limit` takes. */
export const LIMIT_NAMES: readonly string[] = Object.keys(planSchema.shape).flatMap((name) => {
  if (name === 'models') return [];
  return name === 'burst' ? ['burst.requests', 'burst.tokens'] : [name];
});

/** `name=value`, or `name@model=value`, added to those before; `none` takes the limit away. For commander. */
export function parseLimit(text: string, before: readonly LimitEdit[] = []): LimitEdit[] {
  const [, name = '', model, value = ''] = /^([a-zA-Z.]+)(?:@([^=]+))?=(.*)$/.exec(text) ?? [];
  if (!LIMIT_NAMES.includes(name)) {
    throw new InvalidArgumentError(`Expected name=value, where name is one of ${LIMIT_NAMES.join(', ')}.`);
  }
  const path = [...(model === undefined ? [] : ['models', model]), ...name.split('.')];
  return [...before, checked({ path, value: valueOf(name, value) })];
}

/** USD of a month, or `none`. For commander. */
export function parseBudget(text: string): LimitEdit {
  return checked({ path: ['usdPerMonth'], value: text === 'none' ? null : text });
}

/** Limits with these edits done, in their order; null: none are left. */
export function editLimits(now: PlanLimits | null, edits: readonly LimitEdit[]): PlanLimits | null {
  const limits: Tree = structuredClone(now ?? {});
  for (const { path, value } of edits) put(limits, path, value);
  return Object.keys(limits).length === 0 ? null : planSchema.parse(limits);
}

type Tree = { [name: string]: unknown };

/** Puts a value at its path; objects that are left empty go too. */
function put(tree: Tree, [name = '', ...rest]: readonly string[], value: string | number | null): void {
  if (rest.length === 0) {
    if (value === null) delete tree[name];
    else tree[name] = value;
    return;
  }
  // Only objects stand above the end of a path.
  const inner = { ...(tree[name] as Tree | undefined) };
  put(inner, rest, value);
  if (Object.keys(inner).length === 0) delete tree[name];
  else tree[name] = inner;
}

function valueOf(name: string, text: string): string | number | null {
  if (text === 'none') return null;
  return name !== 'usdPerMonth' && /^\d{1,15}$/.test(text) ? Number(text) : text;
}

/** An edit whose limit the configuration would take too. */
function checked(edit: LimitEdit): LimitEdit {
  const limits: Tree = {};
  put(limits, edit.path, edit.value);
  const { error } = planSchema.safeParse(limits);
  if (error === undefined) return edit;
  const [fault] = error.issues;
  throw new InvalidArgumentError(`${fault?.path.join('.')}: ${fault?.message}.`);
}
