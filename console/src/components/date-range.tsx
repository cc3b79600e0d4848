import { Popover } from '@base-ui/react/popover';
import { CalendarDays, Check, ChevronsUpDown } from 'lucide-react';
import { lazy, Suspense, useState } from 'react';
import { classNames } from './class-names.ts';
import {
  daysOf,
  isDay,
  isNamedRange,
  NAMED_RANGES,
  useToday,
  type Days,
  type NamedRange,
} from './date-range-days.ts';
import { POPUP } from './popup.ts';
import { Skeleton } from './states.tsx';
import { isTimeSet, timeRangeText, type TimeRange } from './time-range.ts';

const Calendar = lazy(() => import('./date-range-calendar.tsx'));

interface DateRangeProps {
  /** Text of the button, such as "Last 7 days". */
  text: string;
  /** Null: a custom range. */
  range: NamedRange | 'any' | null;
  /** The selected days; null: the range does not consist of whole days. */
  days: Days | null;
  any?: boolean;
  small?: boolean;
  onRange: (range: NamedRange | 'any') => void;
  onDays: (days: Days) => void;
}

const ENTRY =
  'flex h-8 w-full items-center justify-between gap-3 rounded-md px-2.5 text-left text-sm whitespace-nowrap hover:bg-hover aria-pressed:font-medium';

/** Selects a preset range, or days in a calendar that loads when it is opened. */
export function DateRange({
  text,
  range,
  days,
  any = false,
  small = false,
  onRange,
  onDays,
}: DateRangeProps) {
  const [open, setOpen] = useState(false);
  const [custom, setCustom] = useState(false);
  const today = useToday();
  const names = Object.keys(NAMED_RANGES).filter(isNamedRange);
  const choices = [...(any ? (['any'] as const) : []), ...names];
  return (
    <Popover.Root
      open={open}
      onOpenChange={(isOpen) => {
        setOpen(isOpen);
        setCustom(isOpen && range === null);
      }}
    >
      <Popover.Trigger
        className={classNames(
          'inline-flex min-w-0 items-center gap-2 border border-line-strong bg-surface text-ink transition-colors hover:bg-hover',
          small ? 'h-8 rounded-md px-2.5 text-xs' : 'h-9 rounded-lg px-3 text-sm',
        )}
      >
        <CalendarDays className="size-4 shrink-0 text-ink-3" />
        <span className="sr-only">Time range: </span>
        <span className="truncate">{text}</span>
        <ChevronsUpDown className="size-3.5 shrink-0 text-ink-3" />
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Positioner sideOffset={4} align="end" collisionPadding={12} className="z-50 outline-none">
          <Popover.Popup
            aria-label="Time range"
            className={classNames(
              POPUP,
              'flex max-h-[var(--available-height)] max-w-[var(--available-width)] flex-col overflow-y-auto sm:flex-row',
            )}
          >
            <div
              className={classNames('shrink-0 sm:w-44', custom && 'grid grid-cols-2 sm:block')}
              role="group"
              aria-label="Ranges"
            >
              {choices.map((name) => (
                <button
                  key={name}
                  type="button"
                  aria-pressed={!custom && range === name}
                  className={ENTRY}
                  onClick={() => {
                    onRange(name);
                    setOpen(false);
                  }}
                >
                  {name === 'any' ? 'Any time' : NAMED_RANGES[name]}
                  {!custom && range === name && <Chosen />}
                </button>
              ))}
              <button
                type="button"
                aria-pressed={custom}
                aria-expanded={custom}
                className={ENTRY}
                onClick={() => setCustom(true)}
              >
                Custom range
                {custom && <Chosen />}
              </button>
              <p className="px-2.5 py-1.5 text-2xs text-ink-3">Days start at midnight UTC</p>
            </div>
            {custom && (
              <div className="border-t border-line p-3 sm:ml-1 sm:border-t-0 sm:border-l">
                <Suspense fallback={<Skeleton className="h-[23.5rem] w-64" />}>
                  <Calendar
                    days={days}
                    today={today}
                    onDays={(chosen) => {
                      onDays(chosen);
                      setOpen(false);
                    }}
                  />
                </Suspense>
              </div>
            )}
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}

function Chosen() {
  return <Check className="size-3.5 text-accent" />;
}

export function TimeFilter({ value, onChange }: { value: TimeRange; onChange: (value: TimeRange) => void }) {
  const { range, from, to } = value;
  const today = useToday();
  const custom = from !== null && to !== null && isDay(from) && isDay(to) ? { from, to } : null;
  return (
    <DateRange
      any
      small
      text={timeRangeText(value)}
      range={isTimeSet(value) ? range : 'any'}
      days={range === null ? custom : daysOf(range, today)}
      onRange={(chosen) => onChange({ range: chosen === 'any' ? null : chosen, from: null, to: null })}
      onDays={(days) => onChange({ range: null, ...days })}
    />
  );
}
