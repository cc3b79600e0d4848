import { limitsSet, limitText } from '../../format/limits.ts';
import { dateTime } from '../../format/time.ts';
import type { Entry } from './action-labels.ts';

/** A field of an entry with its old value, if any, and its new value. */
export interface Change {
  field: string;
  from: string | null;
  to: string | null;
}

const FIELDS: Readonly<Record<string, string>> = {
  name: 'Name',
  plan: 'Plan',
  status: 'Status',
  role: 'Role',
  kind: 'Kind',
  expires_at: 'Expires',
  allowed_models: 'Models',
  limits: 'Limits',
  with: 'Method',
  at: 'Method',
  by_link: 'Via link',
  user: 'User ID',
  provider: 'Provider',
  purpose: 'Purpose',
  replica: 'Replica',
};

/** Field labels of actions whose detail is a single value. */
const SINGLE: Readonly<Record<string, string>> = {
  'account.rename': 'Name',
  'account.set_plan': 'Plan',
  'account.suspend': 'Status',
  'account.resume': 'Status',
  'account.close': 'Status',
  'plan.create': 'Limits',
  'plan.change': 'Limits',
  'plan.remove': 'Limits',
  'plan.make_default': 'Default plan',
};

/** Returns the changes of an entry, in order. */
export function changesOf({ action, detail }: Entry): Change[] {
  if (isChange(detail)) return [changeOf(SINGLE[action] ?? 'Value', detail)];
  return Object.entries(detail).map(([field, value]) => {
    const label = FIELDS[field] ?? field;
    return isChange(value)
      ? changeOf(label, value)
      : { field: label, from: null, to: valueText(field, value) };
  });

  function changeOf(field: string, { from, to }: { from: unknown; to: unknown }): Change {
    return { field, from: valueText(field, from), to: valueText(field, to) };
  }
}

function isChange(value: unknown): value is { from: unknown; to: unknown } {
  return typeof value === 'object' && value !== null && 'from' in value && 'to' in value;
}

/** Formats a value. */
function valueText(field: string, value: unknown): string {
  if (value === null || value === undefined) return NONE[field.toLowerCase()] ?? 'None';
  if (typeof value === 'boolean') return value ? 'Yes' : 'No';
  if (Array.isArray(value)) return value.join(', ');
  if (typeof value === 'object') return limitsText(value as Record<string, unknown>); // Limits are the only objects in entries.
  if (typeof value === 'string' && MOMENT.test(value)) return dateTime(value);
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const NONE: Readonly<Record<string, string>> = {
  plan: 'Default plan',
  expires: 'Never',
  expires_at: 'Never',
  models: 'All',
  allowed_models: 'All',
};

const MOMENT = /^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/;

/** Formats limits, which entries store under their configuration names, such as `requestsPerMinute`. */
function limitsText({ models, ...limits }: Record<string, unknown>): string {
  const named = Object.fromEntries(
    Object.entries(limits).map(([name, bound]) => [
      name.replaceAll(/[A-Z]/g, (one) => `_${one.toLowerCase()}`),
      bound,
    ]),
  );
  const all = limitsSet(named as Parameters<typeof limitsSet>[0]).map(({ limit, bound }) =>
    limitText(limit, bound),
  );
  const single = typeof models === 'object' && models !== null ? Object.keys(models) : [];
  const parts = [...all, ...(single.length > 0 ? [`separate limits for ${single.join(', ')}`] : [])];
  return parts.length > 0 ? parts.join(', ') : 'No limits';
}
