import type { ReactNode } from 'react';
import type { Series } from './series.ts';
import { Swatch } from './swatch.tsx';
import { exactValue, type Unit } from './value-axis.ts';

interface ReadOutProps {
  time: string;
  series: readonly Series[];
  /** Index of the hovered column. */
  index: number;
  /** Number of columns. */
  columns: number;
  /** Left edge of the hovered column, in pixels from the left of the chart. */
  left: number;
  width: number;
  unit: Unit;
}

/** The tooltip of a chart: highlights a column and lists its values. */
export function ReadOut({ time, series, index, columns, left, width, unit }: ReadOutProps) {
  const bars = series.filter(({ shape }) => shape === 'bar');
  const sum = bars.reduce((total, { values }) => total + (values[index] ?? 0), 0);
  const isLeft = index < columns / 2;
  return (
    <div className="pointer-events-none absolute inset-0 z-10">
      <div className="absolute top-2 bottom-6 rounded-sm bg-ink/6" style={{ left, width }} />
      <div
        className="absolute top-2 w-max max-w-[min(16rem,60%)] rounded-lg border border-line bg-raised px-3 py-2 text-xs shadow-popup"
        style={isLeft ? { left: left + width + 6 } : { right: `calc(100% - ${left - 6}px)` }}
      >
        <p className="mb-1 font-medium text-ink">{time}</p>
        {/* In the order of the stack, from the top. */}
        {series.toReversed().map((one) => (
          <ReadOutLine key={one.label} label={one.label} value={one.values[index]} unit={unit}>
            <Swatch series={one} />
          </ReadOutLine>
        ))}
        {bars.length > 1 && (
          <div className="mt-1 border-t border-line pt-1">
            <ReadOutLine label="Total" value={sum} unit={unit} />
          </div>
        )}
      </div>
    </div>
  );
}

function ReadOutLine({
  label,
  value,
  unit,
  children,
}: {
  label: string;
  value: number | null | undefined;
  unit: Unit;
  children?: ReactNode;
}) {
  return (
    <p className="flex items-center gap-2 text-ink-2">
      {children}
      <span className="min-w-0 truncate">{label}</span>
      <span className="ml-auto pl-3 font-medium text-ink tabular-nums">
        {value === null || value === undefined ? '—' : exactValue(unit, value)}
      </span>
    </p>
  );
}
