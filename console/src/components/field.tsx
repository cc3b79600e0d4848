import { Field as Base } from '@base-ui/react/field';
import type { ComponentProps, ReactNode } from 'react';
import { classNames } from './class-names.ts';
import { useFormField } from './form.tsx';
import { INPUT } from './input.ts';

interface FieldProps {
  /** The API's name of the parameter, so that the form shows errors about it here. */
  name?: string | undefined;
  label: ReactNode;
  /** Next to the label, such as "optional". */
  aside?: ReactNode;
  hint?: ReactNode;
  /** Validation error of a field without a form. */
  error?: string | null | undefined;
  className?: string | undefined;
  children: ReactNode;
}

export function Field({ name, label, aside, hint, error, className, children }: FieldProps) {
  useFormField(name);
  return (
    <Base.Root
      name={name}
      invalid={Boolean(error)}
      className={classNames('group/field flex min-w-0 flex-col gap-1.5', className)}
    >
      <div className="flex items-baseline justify-between gap-3">
        <Base.Label className="text-xs font-medium text-ink-2">{label}</Base.Label>
        {aside !== undefined && <span className="text-xs text-ink-3">{aside}</span>}
      </div>
      {children}
      {error ? (
        <Base.Error match className={ERROR}>
          {error}
        </Base.Error>
      ) : (
        <Base.Error className={ERROR} />
      )}
      {hint !== undefined && (
        <Base.Description className="text-xs leading-5 text-ink-3 group-data-invalid/field:hidden">
          {hint}
        </Base.Description>
      )}
    </Base.Root>
  );
}

const ERROR = 'text-xs text-bad';

type TextFieldProps = Omit<FieldProps, 'children'> &
  Omit<ComponentProps<'input'>, 'children' | 'className' | 'name'> & { mono?: boolean };

export function TextField({
  name,
  label,
  aside,
  hint,
  error,
  className,
  mono = false,
  ...input
}: TextFieldProps) {
  return (
    <Field {...{ name, label, aside, hint, error, className }}>
      <Base.Control className={classNames(INPUT, 'h-9', mono && 'font-mono text-xs')} {...input} />
    </Field>
  );
}

/** The email address with which a user signs in. */
export function EmailField(props: Omit<TextFieldProps, 'label'>) {
  return <TextField label="Email" type="email" autoComplete="username" required {...props} />;
}

type TextAreaProps = Omit<FieldProps, 'children'> &
  Omit<ComponentProps<'textarea'>, 'children' | 'className' | 'name'> & { mono?: boolean };

export function TextArea({
  name,
  label,
  aside,
  hint,
  error,
  className,
  mono = false,
  ...area
}: TextAreaProps) {
  return (
    <Field {...{ name, label, aside, hint, error, className }}>
      <Base.Control
        render={<textarea {...area} />}
        className={classNames(INPUT, 'min-h-20 resize-y py-2 leading-5', mono && 'font-mono text-xs')}
      />
    </Field>
  );
}
