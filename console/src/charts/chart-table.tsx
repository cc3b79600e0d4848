import { TextLink } from '../components/link.tsx';
import { timeText, type Series } from './series.ts';
import { exactValue, type Unit } from './value-axis.ts';

interface ChartTableProps {
  label: string;
  /** Unix seconds. */
  times: readonly number[];
  series: readonly Series[];
  unit: Unit;
  /** Index of the period that has not ended yet. */
  partial?: number | undefined;
  formatTime: (unixSeconds: number) => string;
  linkOf?: ((index: number) => string) | undefined;
}

export function ChartTable({ label, times, series, unit, partial, formatTime, linkOf }: ChartTableProps) {
  const cell = 'px-3 py-1.5 first:pl-0 last:pr-0';
  return (
    <table className="w-full text-xs">
      <caption className="sr-only">{label}</caption>
      <thead>
        <tr className="border-b border-line text-ink-3">
          <th scope="col" className={`${cell} text-left font-medium`}>
            Time
          </th>
          {series.map(({ label }) => (
            <th key={label} scope="col" className={`${cell} text-right font-medium`}>
              {label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {times.map((time, index) => {
          const text = timeText(formatTime(time), index === partial);
          return (
            <tr key={time} className="border-b border-line last:border-0">
              <th scope="row" className={`${cell} text-left font-normal whitespace-nowrap`}>
                {linkOf ? <TextLink to={linkOf(index)}>{text}</TextLink> : text}
              </th>
              {series.map(({ label, values }) => {
                const value = values[index];
                return (
                  <td key={label} className={`${cell} text-right whitespace-nowrap tabular-nums`}>
                    {value === null || value === undefined ? '—' : exactValue(unit, value)}
                  </td>
                );
              })}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
