import { Field as Base } from '@base-ui/react/field';
import type { ComponentProps, ReactNode } from 'react';
import { classNames } from './class-names.ts';

/** Classes of text inputs. */
export const INPUT = classNames(
  'w-full rounded-lg border border-line-strong bg-surface px-3 text-sm text-ink placeholder:text-ink-3',
  'focus-visible:outline-2 focus-visible:-outline-offset-1 focus-visible:outline-accent',
  'data-invalid:border-bad disabled:bg-sunken disabled:text-ink-3',
);

interface FieldProps {
  label: ReactNode;
  /** Next to the label, such as "optional". */
  aside?: ReactNode;
  hint?: ReactNode;
  /** Validation error. */
  error?: string | null | undefined;
  className?: string | undefined;
  children: ReactNode;
}

/** A form field: label, control, hint and error, linked for screen readers. */
export function Field({ label, aside, hint, error, className, children }: FieldProps) {
  return (
    <Base.Root invalid={Boolean(error)} className={classNames('flex min-w-0 flex-col gap-1.5', className)}>
      <div className="flex items-baseline justify-between gap-3">
        <Base.Label className="text-xs font-medium text-ink-2">{label}</Base.Label>
        {aside !== undefined && <span className="text-xs text-ink-3">{aside}</span>}
      </div>
      {children}
      {error ? (
        <Base.Error match className="text-xs text-bad">
          {error}
        </Base.Error>
      ) : (
        hint !== undefined && (
          <Base.Description className="text-xs leading-5 text-ink-3">{hint}</Base.Description>
        )
      )}
    </Base.Root>
  );
}

type TextFieldProps = Omit<FieldProps, 'children'> &
  Omit<ComponentProps<'input'>, 'children' | 'className'> & { mono?: boolean };

/** A single-line text input. */
export function TextField({ label, aside, hint, error, className, mono = false, ...input }: TextFieldProps) {
  return (
    <Field {...{ label, aside, hint, error, className }}>
      <Base.Control className={classNames(INPUT, 'h-9', mono && 'font-mono text-xs')} {...input} />
    </Field>
  );
}

type TextAreaProps = Omit<FieldProps, 'children'> &
  Omit<ComponentProps<'textarea'>, 'children' | 'className'> & { mono?: boolean };

/** A multi-line text input. */
export function TextArea({ label, aside, hint, error, className, mono = false, ...area }: TextAreaProps) {
  return (
    <Field {...{ label, aside, hint, error, className }}>
      <Base.Control
        render={<textarea {...area} />}
        className={classNames(INPUT, 'min-h-20 resize-y py-2 leading-5', mono && 'font-mono text-xs')}
      />
    </Field>
  );
}
