import { OTPField } from '@base-ui/react/otp-field';
import { useId } from 'react';
import { classNames } from './class-names.ts';
import { INPUT } from './input.ts';
import { useFocus } from './focus.ts';

const DIGITS = 6;

/** Six boxes for the code of an authenticator app. Supports paste and autofill, and submits its form on the last digit. */
export function CodeField({
  label,
  value,
  onChange,
  focus = false,
}: {
  label: string;
  value: string;
  onChange: (code: string) => void;
  focus?: boolean;
}) {
  const id = useId();
  const first = useFocus<HTMLInputElement>(focus);
  return (
    <div className="flex flex-col gap-1.5">
      <label htmlFor={id} className="text-xs font-medium text-ink-2">
        {label}
      </label>
      <OTPField.Root
        id={id}
        length={DIGITS}
        autoSubmit
        required
        value={value}
        onValueChange={onChange}
        className="grid max-w-72 grid-cols-6 gap-2"
      >
        {Array.from({ length: DIGITS }, (_, index) => (
          <OTPField.Input
            key={index}
            ref={index === 0 ? first : undefined}
            aria-label={index === 0 ? undefined : `Digit ${index + 1} of ${DIGITS}`}
            className={classNames(INPUT, 'h-11 px-0 text-center font-mono text-base')}
          />
        ))}
      </OTPField.Root>
    </div>
  );
}
