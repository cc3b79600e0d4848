import { Select } from '../../components/select.tsx';
import { STATUSES } from './filters.ts';

const ANY = '';

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

interface StatusFilterProps {
  /** Null: any. */
  value: string | null;
  onChange: (value: string | null) => void;
}

/** Selects a status or error code, or all. */
export function StatusFilter({ value, onChange }: StatusFilterProps) {
  const known = value !== null && STATUSES[value] === undefined && !CODES.includes(value) ? [value] : [];
  return (
    <Select
      label="Status"
      small
      value={value ?? ANY}
      choices={[
        { value: ANY, label: 'Any status' },
        ...Object.entries(STATUSES).map(([status, { label, hint }]) => ({ value: status, label, hint })),
        ...[...CODES, ...known].map((code) => ({ value: code, label: code })),
      ]}
      onChange={(chosen) => onChange(chosen === ANY ? null : chosen)}
    />
  );
}
