import { useKeys } from '../api/keys.ts';
import { useRead } from '../api/queries.ts';
import { addDays, useToday } from '../components/date-range-days.ts';
import { failedChoices, Select, type Choice } from '../components/select.tsx';
import type { Scope } from '../state/scope.ts';
import { STATUSES } from './filters.ts';

interface FilterProps {
  scope: Scope;
  /** Null: all. */
  value: string | null;
  onChange: (value: string | null) => void;
}

/** Select value of "all". No id is empty. */
const ALL = '';
/** Models and clients used within this many days are offered. */
const USED_DAYS = 90;

/** Selects one of the used models, or all. */
export function ModelFilter({ scope, value, onChange }: FilterProps) {
  const models = useUsed(scope, 'model', value);
  return (
    <Select
      label="Model"
      small
      className="max-w-56"
      value={value ?? ALL}
      choices={[{ value: ALL, label: 'All models' }, ...models]}
      onChange={(chosen) => onChange(chosen === ALL ? null : chosen)}
    />
  );
}

/** Returns the used models or clients, and the selected one, in the order of the alphabet. */
export function useUsed(scope: Scope, by: 'model' | 'client', selected: string | null): Choice<string>[] {
  const to = addDays(useToday(), 1);
  const used = useRead('readUsage', { query: { ...scope.query, by, from: addDays(to, -USED_DAYS), to } });
  const found = new Set((used.data?.data ?? []).flatMap((row) => row[by] ?? []));
  if (selected !== null) found.add(selected);
  return [...[...found].sort().map((id) => ({ value: id, label: id })), ...failedChoices(used, `the ${by}s`)];
}

/** Selects one of the keys, or all. */
export function KeyFilter({ scope, value, onChange }: FilterProps) {
  const list = useKeys(scope.query);
  const keys = list.data?.data ?? [];
  const isListed = value === null || keys.some(({ id }) => id === value);
  // A playground key, or one of very many.
  const other = useRead('getKey', { params: { id: value ?? '' } }, { enabled: !isListed && !list.isPending });
  const known = isListed ? keys : [{ id: value, name: other.data?.name ?? value }, ...keys];
  return (
    <Select
      label="Key"
      small
      className="max-w-56"
      value={value ?? ALL}
      choices={[
        { value: ALL, label: 'All keys' },
        ...known.map(({ id, name }) => ({ value: id, label: name })),
        ...failedChoices(list, 'the keys'),
      ]}
      onChange={(chosen) => onChange(chosen === ALL ? null : chosen)}
    />
  );
}

/** Common error codes. The URL accepts any other code. */
const CODES = [
  'context_length_exceeded',
  'engine_unavailable',
  'queue_full',
  'internal_error',
  'invalid_api_key',
  'storage_unavailable',
  'shutting_down',
];

/** Selects a status or error code, or all. */
export function StatusFilter({ value, onChange }: Omit<FilterProps, 'scope'>) {
  const known = value !== null && STATUSES[value] === undefined && !CODES.includes(value) ? [value] : [];
  return (
    <Select
      label="Status"
      small
      value={value ?? ALL}
      choices={[
        { value: ALL, label: 'Any status' },
        ...Object.entries(STATUSES).map(([status, { label, hint }]) => ({ value: status, label, hint })),
        ...[...CODES, ...known].map((code) => ({ value: code, label: code })),
      ]}
      onChange={(chosen) => onChange(chosen === ALL ? null : chosen)}
    />
  );
}
