import { Select as Base } from '@base-ui/react/select';
import { Check, ChevronsUpDown } from 'lucide-react';
import type { ReactNode } from 'react';
import type { QueryState } from '../api/queries.ts';
import { whole } from '../format/number.ts';
import { classNames } from './class-names.ts';
import { POPUP } from './popup.ts';

export interface Choice<Value extends string> {
  value: Value;
  label: ReactNode;
  /** Small text below the label. */
  hint?: ReactNode;
  /** How many elements have this value, at the end of the line. */
  count?: number | undefined;
  disabled?: boolean;
}

/** Not an ID or a name. */
const FAILED = '\n';

/** Returns a choice that cannot be selected and says that the choices, such as "the models", could not be loaded, if so. */
export function failedChoices({ data, error }: QueryState<unknown>, what: string): Choice<string>[] {
  if (data !== undefined || error === null) return [];
  return [{ value: FAILED, label: `Could not load ${what}`, hint: error.message, disabled: true }];
}

interface SelectProps<Value extends string> {
  /** Accessible name; not needed inside a `Field`. */
  label?: string;
  value: Value;
  choices: readonly Choice<Value>[];
  onChange: (value: Value) => void;
  className?: string;
  small?: boolean;
  disabled?: boolean;
}

export function Select<Value extends string>(props: SelectProps<Value>) {
  const { label, value, choices, onChange, className, small = false, disabled = false } = props;
  return (
    <Base.Root
      items={choices.map(({ value, label }) => ({ value, label }))}
      value={value}
      disabled={disabled}
      onValueChange={(chosen) => {
        if (chosen !== null) onChange(chosen);
      }}
    >
      <Base.Trigger
        aria-label={label}
        className={classNames(
          'inline-flex min-w-0 items-center justify-between gap-2 border border-line-strong bg-surface text-ink transition-colors hover:bg-hover',
          small ? 'h-8 rounded-md px-2.5 text-xs' : 'h-9 rounded-lg px-3 text-sm',
          'data-disabled:opacity-50',
          className,
        )}
      >
        <Base.Value className="truncate" />
        <Base.Icon>
          <ChevronsUpDown className="size-3.5 text-ink-3" />
        </Base.Icon>
      </Base.Trigger>
      <Base.Portal>
        <Base.Positioner sideOffset={4} alignItemWithTrigger={false} className="z-50 outline-none">
          <Base.Popup
            className={classNames(
              POPUP,
              'max-h-[min(24rem,var(--available-height))] max-w-(--available-width) min-w-(--anchor-width) overflow-y-auto',
            )}
          >
            {choices.map((choice) => (
              <Base.Item
                key={choice.value}
                value={choice.value}
                disabled={choice.disabled}
                className="grid cursor-default grid-cols-[1fr_auto_auto] items-center gap-3 rounded-md px-2.5 py-1.5 text-sm outline-none select-none data-disabled:opacity-50 data-highlighted:bg-hover"
              >
                <Base.ItemText className="min-w-0">
                  {choice.label}
                  {choice.hint !== undefined && (
                    <span className="block text-xs text-ink-3">{choice.hint}</span>
                  )}
                </Base.ItemText>
                <span className="text-xs text-ink-3 tabular-nums">
                  {choice.count !== undefined && whole(choice.count)}
                </span>
                <Base.ItemIndicator>
                  <Check className="size-3.5 text-accent" />
                </Base.ItemIndicator>
              </Base.Item>
            ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}

interface FilterSelectProps extends Omit<SelectProps<string>, 'value' | 'onChange' | 'small'> {
  label: string;
  /** Label of the empty selection, such as "All models". */
  any: string;
  /** Null: no selection. */
  value: string | null;
  onChange: (value: string | null) => void;
}

export function FilterSelect({ any, value, choices, onChange, ...rest }: FilterSelectProps) {
  return (
    <Select
      small
      value={value ?? ''}
      choices={[{ value: '', label: any }, ...choices]}
      onChange={(chosen) => onChange(chosen || null)}
      {...rest}
    />
  );
}
