import { isMoney, limitInput, limitLabel, type LimitName } from '../format/limits.ts';
import type { TypedLimits } from '../format/typed-limits.ts';
import { TextField } from './field.tsx';

interface LimitFieldsProps {
  names: readonly LimitName[];
  limits: TypedLimits;
  onChange: (limits: TypedLimits) => void;
}

/** Inputs for limits; empty: no limit. */
export function LimitFields({ names, limits, onChange }: LimitFieldsProps) {
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      {names.map((name) => (
        <TextField
          key={name}
          name={`limits.${name}`}
          label={limitLabel(name)}
          aside={limitInput(name)}
          inputMode={isMoney(name) ? 'decimal' : 'numeric'}
          autoComplete="off"
          placeholder="No limit"
          value={limits[name]}
          onChange={(event) => onChange({ ...limits, [name]: event.target.value })}
        />
      ))}
    </div>
  );
}
