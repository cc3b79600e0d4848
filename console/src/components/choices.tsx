import { Checkbox as BaseCheckbox } from '@base-ui/react/checkbox';
import { Switch as BaseSwitch } from '@base-ui/react/switch';
import { Toggle } from '@base-ui/react/toggle';
import { ToggleGroup } from '@base-ui/react/toggle-group';
import { Check } from 'lucide-react';
import type { ReactNode } from 'react';
import { classNames } from './class-names.ts';

const BOX =
  'mt-[3px] flex size-4 shrink-0 items-center justify-center rounded border border-line-strong bg-surface data-checked:border-accent data-checked:bg-accent data-disabled:opacity-50';

interface OnOffProps {
  checked: boolean;
  onChange: (checked: boolean) => void;
  disabled?: boolean;
  children: ReactNode;
}

/** A checkbox, submitted with its form. */
export function Checkbox({ checked, onChange, children }: Omit<OnOffProps, 'disabled'>) {
  return (
    <Labeled>
      <Box checked={checked} onCheckedChange={(isChecked) => onChange(isChecked)} />
      {children}
    </Labeled>
  );
}

/** A checkbox without a visible label, such as that of a row. */
export function BareCheckbox({ label, checked, onChange }: Omit<OnOffProps, 'children'> & { label: string }) {
  return <Box aria-label={label} checked={checked} onCheckedChange={(isChecked) => onChange(isChecked)} />;
}

/** A checkbox of a `CheckboxGroup`, which has the values that are checked. */
export function GroupCheckbox({ value, children }: { value: string; children: ReactNode }) {
  return (
    <Labeled>
      <Box value={value} />
      {children}
    </Labeled>
  );
}

function Labeled({ children: [box, label] }: { children: readonly [ReactNode, ReactNode] }) {
  return (
    <label className="flex items-start gap-2.5 text-sm text-ink">
      {box}
      <span className="min-w-0">{label}</span>
    </label>
  );
}

function Box(props: BaseCheckbox.Root.Props) {
  return (
    <BaseCheckbox.Root {...props} className={BOX}>
      <BaseCheckbox.Indicator>
        <Check className="size-3 text-accent-ink" strokeWidth={3} />
      </BaseCheckbox.Indicator>
    </BaseCheckbox.Root>
  );
}

export function Switch({ checked, onChange, disabled = false, children }: OnOffProps) {
  return (
    <label className="flex items-center justify-between gap-3 text-sm text-ink">
      <span className="min-w-0">{children}</span>
      <BaseSwitch.Root
        checked={checked}
        disabled={disabled}
        onCheckedChange={(isChecked) => onChange(isChecked)}
        className="flex h-5 w-9 shrink-0 items-center rounded-full bg-line-strong p-0.5 transition-colors data-checked:bg-accent data-disabled:opacity-50"
      >
        <BaseSwitch.Thumb className="size-4 rounded-full bg-surface transition-transform data-checked:translate-x-4" />
      </BaseSwitch.Root>
    </label>
  );
}

interface SegmentedProps<Value extends string> {
  label: string;
  value: Value;
  choices: readonly { value: Value; label: ReactNode }[];
  onChange: (value: Value) => void;
}

/** A segmented control: one of a few visible choices. */
export function Segmented<Value extends string>({ label, value, choices, onChange }: SegmentedProps<Value>) {
  return (
    <ToggleGroup
      aria-label={label}
      value={[value]}
      onValueChange={([chosen]) => {
        // Pressing the selected choice again must not clear it.
        if (chosen !== undefined) onChange(chosen);
      }}
      className="inline-flex h-8 items-center gap-0.5 rounded-lg bg-sunken p-0.5"
    >
      {choices.map((choice) => (
        <Toggle
          key={choice.value}
          value={choice.value}
          className={classNames(
            'inline-flex h-7 items-center gap-1.5 rounded-md px-2.5 text-xs font-medium whitespace-nowrap text-ink-2 transition-colors hover:text-ink',
            'data-pressed:bg-surface data-pressed:text-ink data-pressed:shadow-[0_1px_2px_oklch(0_0_0/0.12)]',
          )}
        >
          {choice.label}
        </Toggle>
      ))}
    </ToggleGroup>
  );
}
