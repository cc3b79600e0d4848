import { parseDate, type CalendarDate } from '@internationalized/date';
import { ChevronLeft, ChevronRight } from 'lucide-react';
import { useState } from 'react';
import { Button as AriaButton } from 'react-aria-components/Button';
import {
  CalendarCell,
  CalendarGrid,
  CalendarGridBody,
  CalendarGridHeader,
  CalendarHeaderCell,
} from 'react-aria-components/Calendar';
import { DateInput, DateSegment } from 'react-aria-components/DateField';
import { DateRangePicker } from 'react-aria-components/DateRangePicker';
import { Group } from 'react-aria-components/Group';
import { Heading } from 'react-aria-components/Heading';
import { I18nProvider } from 'react-aria-components/I18nProvider';
import { RangeCalendar } from 'react-aria-components/RangeCalendar';
import { DATES } from '../format/locale.ts';
import { Button } from './button.tsx';
import { addDays, type Days } from './date-range-days.ts';

interface CalendarProps {
  days: Days | null;
  /** Last selectable day. */
  today: string;
  onDays: (days: Days) => void;
}

interface Range {
  start: CalendarDate;
  end: CalendarDate;
}

/** Selects a first and a last day, both included, by typing or in a calendar. */
export default function DateRangeCalendar({ days, today, onDays }: CalendarProps) {
  const [range, setRange] = useState<Range | null>(
    days && { start: parseDate(days.from), end: parseDate(addDays(days.to, -1)) },
  );
  const latest = parseDate(today);
  const isWrong = range !== null && (range.end.compare(range.start) < 0 || range.end.compare(latest) > 0);
  return (
    <form
      className="w-64"
      onSubmit={(event) => {
        event.preventDefault();
        if (range !== null && !isWrong) {
          onDays({ from: range.start.toString(), to: addDays(range.end.toString(), 1) });
        }
      }}
    >
      <I18nProvider locale={DATES}>
        <DateRangePicker
          aria-label="Days"
          value={range}
          onChange={setRange}
          maxValue={latest}
          granularity="day"
          shouldForceLeadingZeros
        >
          <Group className="flex h-9 items-center gap-1 rounded-lg border border-line-strong bg-surface px-2 text-sm focus-within:outline-2 focus-within:-outline-offset-1 focus-within:outline-accent data-invalid:border-bad">
            <DateField slot="start" />
            <span aria-hidden="true" className="text-ink-3">
              –
            </span>
            <DateField slot="end" />
          </Group>
          <Month />
        </DateRangePicker>
      </I18nProvider>
      <Button type="submit" kind="primary" className="mt-3 w-full" disabled={range === null || isWrong}>
        Apply
      </Button>
    </form>
  );
}

function DateField({ slot }: { slot: 'start' | 'end' }) {
  return (
    <DateInput slot={slot} className="flex flex-1 justify-center">
      {(segment) => (
        <DateSegment
          segment={segment}
          className="inline-flex h-6 min-w-6 items-center justify-center rounded px-0.5 tabular-nums outline-none data-[type=literal]:min-w-0 data-[type=literal]:px-0 data-[type=literal]:text-ink-3 data-focused:bg-accent data-focused:text-accent-ink data-placeholder:text-ink-3"
        />
      )}
    </DateInput>
  );
}

const MONTH_BUTTON =
  'inline-flex size-8 items-center justify-center rounded-md text-ink-2 hover:bg-hover data-disabled:opacity-50';

function Month() {
  return (
    <RangeCalendar className="mt-3">
      <div className="flex items-center justify-between">
        <AriaButton slot="previous" className={MONTH_BUTTON}>
          <ChevronLeft className="size-4" />
        </AriaButton>
        <Heading level={3} className="text-sm font-medium" />
        <AriaButton slot="next" className={MONTH_BUTTON}>
          <ChevronRight className="size-4" />
        </AriaButton>
      </div>
      <CalendarGrid className="mt-2 w-full border-collapse">
        <CalendarGridHeader>
          {(day) => (
            <CalendarHeaderCell className="h-8 text-2xs font-medium text-ink-3">{day}</CalendarHeaderCell>
          )}
        </CalendarGridHeader>
        <CalendarGridBody className="[&_td]:p-0 [&_td]:py-px">
          {(date) => (
            <CalendarCell
              date={date}
              className="flex h-9 w-full cursor-default items-center justify-center text-sm tabular-nums outline-none data-disabled:text-ink-3 data-disabled:opacity-50 data-focus-visible:outline-2 data-focus-visible:-outline-offset-2 data-focus-visible:outline-accent data-hovered:bg-hover data-outside-month:invisible data-selected:bg-accent-soft data-selected:text-accent data-selection-end:rounded-r-md data-selection-end:bg-accent data-selection-end:text-accent-ink data-selection-start:rounded-l-md data-selection-start:bg-accent data-selection-start:text-accent-ink not-data-selected:rounded-md"
            />
          )}
        </CalendarGridBody>
      </CalendarGrid>
    </RangeCalendar>
  );
}
