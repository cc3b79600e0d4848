import { TextField } from '../../components/field.tsx';
import { limitLabel, type LimitName } from '../../format/limits.ts';
import type { KeyDraft } from './key-draft.ts';

interface LimitFieldsProps {
  limits: KeyDraft['limits'];
  onChange: (limits: KeyDraft['limits']) => void;
  errorAt: (param: string) => string | null;
}

/** The limits except the budget, with their units. */
const FIELDS: readonly { name: LimitName; unit: string }[] = [
  { name: 'requests_per_minute', unit: 'requests' },
  { name: 'tokens_per_minute', unit: 'tokens' },
  { name: 'requests_in_flight', unit: 'requests' },
  { name: 'tokens_per_day', unit: 'tokens, UTC' },
  { name: 'tokens_per_month', unit: 'tokens, UTC' },
];

/** Inputs for the limits of a key; empty: only the limits of the account apply. */
export function LimitFields({ limits, onChange, errorAt }: LimitFieldsProps) {
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      {FIELDS.map(({ name, unit }) => (
        <TextField
          key={name}
          label={limitLabel(name)}
          aside={unit}
          inputMode="numeric"
          autoComplete="off"
          placeholder="No limit"
          value={limits[name]}
          error={errorAt(`limits.${name}`)}
          onChange={(event) => onChange({ ...limits, [name]: event.target.value })}
        />
      ))}
    </div>
  );
}
