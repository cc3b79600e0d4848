import { Field as Base } from '@base-ui/react/field';
import { Eye, EyeOff } from 'lucide-react';
import { useState, type ComponentProps, type ReactNode } from 'react';
import { IconButton } from './button.tsx';
import { classNames } from './class-names.ts';
import { Field } from './field.tsx';
import { INPUT } from './input.ts';

type PasswordFieldProps = Omit<ComponentProps<'input'>, 'children' | 'className' | 'type' | 'name'> & {
  /** As of a `Field`. */
  name: string;
  label: string;
  aside?: ReactNode;
  hint?: ReactNode;
};

export function PasswordField({ name, label, aside, hint, ...input }: PasswordFieldProps) {
  const [shown, setShown] = useState(false);
  return (
    <Field {...{ name, label, aside, hint }}>
      <div className="relative">
        <Base.Control
          type={shown ? 'text' : 'password'}
          spellCheck={false}
          autoCapitalize="none"
          autoComplete="current-password"
          maxLength={128}
          required
          className={classNames(INPUT, 'h-9 pr-10')}
          {...input}
        />
        <IconButton
          label={shown ? 'Hide password' : 'Show password'}
          className="absolute top-0.5 right-0.5"
          onClick={() => setShown(!shown)}
        >
          {shown ? <EyeOff /> : <Eye />}
        </IconButton>
      </div>
    </Field>
  );
}

export function NewPasswordField(field: Omit<PasswordFieldProps, 'hint'>) {
  return (
    <PasswordField autoComplete="new-password" minLength={10} hint="At least 10 characters" {...field} />
  );
}
