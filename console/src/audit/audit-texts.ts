import { ACTION_LABELS, type ItemOf } from '../api/client.ts';
import { limitsSet, limitText } from '../format/limits.ts';
import { dateTime } from '../format/time.ts';

export type Entry = ItemOf<'listAudit'>;

/** Returns the label of an action; its name if it is unknown. */
export function actionLabel(action: string): string {
  const labels: Readonly<Record<string, string>> = ACTION_LABELS;
  return labels[action] ?? action;
}

/** Returns the label of an action without its subject, with an ellipsis if a name would follow. */
export function standaloneLabel(action: string): string {
  const label = actionLabel(action);
  return / (?:as|for|from|of|to)$/.test(label) ? `${label} …` : label;
}

/** Splits an actor or subject into kind and id: `key:key_12` is the key `key_12`; `service` has no id. */
export function partsOf(named: string): { kind: string; id: string } {
  const colon = named.indexOf(':');
  return colon === -1 ? { kind: named, id: '' } : { kind: named.slice(0, colon), id: named.slice(colon + 1) };
}

/** A field of an entry with its old value, if any, and its new value. */
interface Change {
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
  strict: 'Strict',
  tags: 'Tags',
  with: 'Method',
  at: 'Method',
  by_link: 'Via link',
  user: 'User ID',
  provider: 'Provider',
  purpose: 'Purpose',
  replica: 'Replica',
  source: 'Source',
  replicas: 'Replicas',
  prompt: 'Prompt price',
  completion: 'Completion price',
  input_cache_read: 'Cached prompt price',
  contextTokens: 'Context length',
  until: 'Until',
};

/** Field labels of actions whose detail is a single value. */
const SINGLE: Readonly<Record<string, string>> = {
  'account.rename': 'Name',
  'account.set_plan': 'Plan',
  'account.set_limits': 'Limits',
  'account.suspend': 'Status',
  'account.resume': 'Status',
  'account.close': 'Status',
  'plan.create': 'Limits',
  'plan.change': 'Limits',
  'plan.remove': 'Limits',
  'plan.make_default': 'Default plan',
};

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

function valueText(field: string, value: unknown): string {
  if (value === null || value === undefined) return NONE[field.toLowerCase()] ?? 'None';
  if (typeof value === 'boolean') return value ? 'Yes' : 'No';
  if (Array.isArray(value)) return value.length === 0 ? 'None' : value.join(', ');
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
  input_cache_read: 'Same as the prompt price',
  contexttokens: 'Default',
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

/** Whether an entry is about a key that the console created for its playground, or `sluice chat` for itself. */
const isOfPlayground = ({ action, detail }: Entry): boolean =>
  (action === 'key.create' || action === 'key.revoke') && detail['purpose'] === 'playground';

/** The kind of an entry that folds in the audit log: those about playground keys of one actor. */
export const foldKindOf = (entry: Entry): string | null => (isOfPlayground(entry) ? entry.actor : null);

/** Describes a group, such as "Created 3 and revoked 2 playground keys". */
export function groupText(group: readonly Entry[]): string {
  const created = group.filter(({ action }) => action === 'key.create').length;
  const revoked = group.length - created;
  const parts = [
    ...(created > 0 ? [`created ${created}`] : []),
    ...(revoked > 0 ? [`revoked ${revoked}`] : []),
  ];
  const text = parts.join(' and ');
  const last = revoked > 0 ? revoked : created;
  return `${text.charAt(0).toUpperCase()}${text.slice(1)} playground ${last === 1 ? 'key' : 'keys'}`;
}
