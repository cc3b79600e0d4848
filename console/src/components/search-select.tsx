import { Combobox as Base } from '@base-ui/react/combobox';
import { Check, ChevronsUpDown } from 'lucide-react';
import { useMemo, useState } from 'react';
import { classNames } from './class-names.ts';
import { INPUT } from './input.ts';
import { POPUP } from './popup.ts';

interface SearchChoice {
  value: string;
  label: string;
  /** Small text below the label; also searched. */
  hint?: string | undefined;
}

interface SearchSelectProps {
  /** Accessible name. */
  label: string;
  /** Null: no selection. */
  value: string | null;
  choices: readonly SearchChoice[];
  /** Label of the empty selection, such as "Any account". */
  any: string;
  onChange: (value: string | null) => void;
  /** Converts typed text to a value that is not among the choices; null: not a valid value. */
  typed?: (text: string) => string | null;
  className?: string;
}

/** Maximum number of choices shown at once. */
const SHOWN = 50;

export function SearchSelect(props: SearchSelectProps) {
  const { label, value, choices, any, onChange, typed, className } = props;
  const [text, setText] = useState('');
  const none = useMemo(() => ({ value: '', label: any }), [any]);
  const items = useMemo(() => {
    const exact = typed?.(text.trim()) ?? null;
    const extra = [exact, value].filter(
      (one) => one !== null && choices.every((choice) => choice.value !== one),
    );
    return [none, ...choices, ...[...new Set(extra)].map((one) => ({ value: one ?? '', label: one ?? '' }))];
  }, [choices, none, text, typed, value]);
  return (
    <Base.Root<SearchChoice>
      items={items}
      limit={SHOWN}
      autoHighlight
      value={items.find((item) => item.value === (value ?? '')) ?? none}
      isItemEqualToValue={(item, chosen) => item.value === chosen.value}
      filter={matches}
      onInputValueChange={setText}
      onValueChange={(chosen) => onChange(chosen === null || chosen.value === '' ? null : chosen.value)}
    >
      <Base.Trigger
        aria-label={label}
        className={classNames(
          'inline-flex h-8 min-w-0 items-center justify-between gap-2 rounded-md border border-line-strong bg-surface px-2.5 text-xs text-ink transition-colors hover:bg-hover',
          className,
        )}
      >
        <span className="truncate">
          <Base.Value />
        </span>
        <Base.Icon>
          <ChevronsUpDown className="size-3.5 text-ink-3" />
        </Base.Icon>
      </Base.Trigger>
      <Base.Portal>
        <Base.Positioner sideOffset={4} align="start" className="z-50 outline-none">
          <Base.Popup aria-label={label} className={classNames(POPUP, 'w-72 max-w-[var(--available-width)]')}>
            <Base.Input
              placeholder="Search"
              aria-label={`Search: ${label}`}
              className={classNames(INPUT, 'h-8 rounded-md')}
            />
            <Base.Empty>
              <p className="px-2.5 py-3 text-sm text-ink-3 empty:hidden">No matches</p>
            </Base.Empty>
            <Base.List className="mt-1 max-h-[min(20rem,calc(var(--available-height)-3rem))] overflow-y-auto">
              {(item: SearchChoice) => <Item key={item.value} item={item} />}
            </Base.List>
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}

function Item({ item }: { item: SearchChoice }) {
  return (
    <Base.Item
      value={item}
      className="grid cursor-default grid-cols-[1fr_auto] items-center gap-3 rounded-md px-2.5 py-1.5 text-sm outline-none select-none data-highlighted:bg-hover"
    >
      <span className="min-w-0">
        <span className="block truncate">{item.label}</span>
        {item.hint !== undefined && <span className="block truncate text-xs text-ink-3">{item.hint}</span>}
      </span>
      <Base.ItemIndicator>
        <Check className="size-3.5 text-accent" />
      </Base.ItemIndicator>
    </Base.Item>
  );
}

function matches({ value, label, hint = '' }: SearchChoice, text: string): boolean {
  const words = text.trim().toLowerCase();
  return [value, label, hint].some((part) => part.toLowerCase().includes(words));
}
