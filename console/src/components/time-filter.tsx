import { daysOf, isDay, useToday } from './date-range-days.ts';
import { DateRange } from './date-range.tsx';
import { isTimeSet, timeRangeText, type TimeRange } from './time-range.ts';

interface TimeFilterProps {
  value: TimeRange;
  onChange: (value: TimeRange) => void;
}

/** Selects a time range. */
export function TimeFilter({ value, onChange }: TimeFilterProps) {
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
