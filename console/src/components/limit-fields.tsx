import { isMoney, limitInput, limitLabel, type LimitName, type TypedLimits } from '../format/limits.ts';
import { TextField } from './field.tsx';
import type { FieldOf } from './form.tsx';

interface LimitFieldsProps {
  names: readonly LimitName[];
  field: FieldOf<TypedLimits>;
  /** Shown in an empty field. Default: no limit. */
  placeholder?: (name: LimitName) => string;
}

/** Inputs for limits; empty: no limit. */
export function LimitFields({ names, field, placeholder = () => 'No limit' }: LimitFieldsProps) {
  return (
    <div className={`grid gap-4 ${names.length > 1 ? 'sm:grid-cols-2' : ''}`}>
      {names.map((name) => (
        <TextField
          key={name}
          label={limitLabel(name)}
          aside={limitInput(name)}
          inputMode={isMoney(name) ? 'decimal' : 'numeric'}
          autoComplete="off"
          placeholder={placeholder(name)}
          {...field(name, `limits.${name}`)}
        />
      ))}
    </div>
  );
}
