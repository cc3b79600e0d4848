import { useState } from 'react';
import { Field, TextField } from '../../components/field.tsx';
import { Select, type Choice } from '../../components/select.tsx';
import { dateTime } from '../../format/time.ts';
import { dayOfField, type Expiry } from './key-draft.ts';

interface ExpiryFieldProps {
  expiry: Expiry;
  date: string;
  /** Current expiry of an existing key, ISO 8601; null: never; default: new key. */
  now?: string | null;
  onChange: (change: { expiry: Expiry; date: string }) => void;
  error: string | null;
}

const PRESETS: readonly Choice<Expiry>[] = [
  { value: '7', label: 'In 7 days' },
  { value: '30', label: 'In 30 days' },
  { value: '90', label: 'In 90 days' },
  { value: '365', label: 'In 1 year' },
  { value: 'date', label: 'Custom date…' },
];

/** Selects when a key expires. */
export function ExpiryField({ expiry, date, now, onChange, error }: ExpiryFieldProps) {
  const [today] = useState(() => dayOfField(Date.now()));
  const never: Choice<Expiry> = { value: 'never', label: 'Never' };
  const choices =
    now === undefined
      ? [never, ...PRESETS]
      : now === null
        ? [{ ...never, value: 'same' as const }, ...PRESETS]
        : [{ value: 'same' as const, label: dateTime(now) }, never, ...PRESETS];
  return (
    <div className="grid items-start gap-4 sm:grid-cols-2">
      <Field label="Expires" error={expiry === 'date' ? null : error}>
        <Select
          value={expiry}
          choices={choices}
          onChange={(chosen) => onChange({ expiry: chosen, date: date || today })}
        />
      </Field>
      {expiry === 'date' && (
        <TextField
          label="Expiry date"
          aside="end of day, local time"
          type="date"
          required
          min={today}
          value={date}
          error={error}
          onChange={(event) => onChange({ expiry, date: event.target.value })}
        />
      )}
    </div>
  );
}
