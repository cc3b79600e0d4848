import {
  useEffect,
  useMemo,
  useRef,
  useState,
  type PointerEvent,
  type ReactNode,
  type RefObject,
} from 'react';
import { useScheme } from '../state/appearance.ts';
import { ChartTable } from './chart-table.tsx';
import { plotInto, type Plot } from './plot.ts';
import { isMeasured, timeText, type Series } from './series.ts';
import { exactValue, type Unit } from './value-axis.ts';

interface ChartProps {
  /** Caption of the table for screen readers. */
  label: string;
  /** Unix seconds, ascending, at even intervals. */
  times: readonly number[];
  series: readonly Series[];
  unit: Unit;
  formatTime: (unixSeconds: number) => string;
  /** Formats times on the axis; default: as in the tooltip. */
  formatTick?: ((unixSeconds: number) => string) | undefined;
  /** Index of the period that has not ended yet, such as today. */
  partial?: number | undefined;
  /** Called when a point is clicked. Keyboard users need another way. */
  onOpen?: ((index: number) => void) | undefined;
  /** Called when points are dragged over, with the first and the last one. Keyboard users need another way. */
  onDrag?: ((first: number, last: number) => void) | undefined;
  /** In pixels. */
  height?: number | undefined;
}

/**
 * A time series chart with a tooltip, and a table for screen readers. On touch devices the first tap shows the tooltip,
 * and the second opens the point.
 */
export default function Chart(props: ChartProps) {
  const { series, height } = props;
  // These cannot change in an existing plot, so they are part of the key.
  const look = series.map(({ shape, color, faint, tail }) => [shape, color, faint, tail]);
  return <ChartPlot key={JSON.stringify([look, height, useScheme()])} {...props} />;
}

function ChartPlot(props: ChartProps) {
  const { label, times, series, unit, partial, formatTime, height = 220, onOpen, onDrag } = props;
  const container = useRef<HTMLDivElement>(null);
  const plot = usePlot(container, props);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  /** Where the pointer was pressed; null: elsewhere, or with another button than the main one. */
  const [pressed, setPressed] = useState<(Pointed & { x: number; y: number }) | null>(null);
  const point = (event: PointerEvent): Pointed | null => {
    if (plot.current === null || container.current === null || times.length === 0) return null;
    const index = plot.current.indexAt(event.clientX - container.current.getBoundingClientRect().left);
    return { index, ...plot.current.column(index) };
  };
  const at = pointed !== null && pointed.index < times.length ? pointed : null;
  return (
    <figure className="min-w-0">
      <div className="relative" style={{ height }} aria-hidden="true">
        <div
          ref={container}
          // Absolute, because the canvas would otherwise keep its container wide when the window shrinks.
          className={`absolute inset-0 touch-pan-y overflow-hidden ${onOpen ? 'cursor-pointer' : ''}`}
          onPointerDown={(event) => {
            const at = event.button === 0 ? point(event) : null;
            setPressed(at && { ...at, x: event.clientX, y: event.clientY });
            // A drag may end beside the chart.
            if (onDrag) event.currentTarget.setPointerCapture(event.pointerId);
          }}
          onPointerCancel={() => setPressed(null)}
          onPointerMove={(event) => setPointed(point(event))}
          onPointerLeave={(event) => event.pointerType === 'mouse' && setPointed(null)}
          onPointerUp={(event) => {
            const next = point(event);
            // The first tap only shows the tooltip.
            const opens = event.pointerType === 'mouse' || next?.index === pointed?.index;
            setPointed(next);
            setPressed(null);
            if (pressed === null || next === null) return;
            const isClick = Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) < CLICK_DISTANCE;
            if (!isClick) onDrag?.(Math.min(pressed.index, next.index), Math.max(pressed.index, next.index));
            else if (opens) onOpen?.(next.index);
          }}
        />
        {onDrag && pressed !== null && at !== null && (
          <Band from={Math.min(pressed.left, at.left)} to={Math.max(pressed.left, at.left) + at.width} />
        )}
        {at !== null && (
          <ReadOut
            {...at}
            time={timeText(formatTime(times[at.index] ?? 0), at.index === partial)}
            series={series}
            unit={unit}
            columns={times.length}
          />
        )}
        {!isMeasured(series) && (
          <p className="pointer-events-none absolute inset-0 flex items-center justify-center text-xs text-ink-3">
            No data
          </p>
        )}
      </div>
      <Legend series={series} isPartial={partial !== undefined} />
      <div className="sr-only">
        <ChartTable {...{ label, times, series, unit, partial, formatTime }} />
      </div>
    </figure>
  );
}

/** A pointer that moves further while it is pressed drags, in CSS pixels. */
const CLICK_DISTANCE = 6;

/** The hovered time, and its column in pixels. */
interface Pointed {
  index: number;
  left: number;
  width: number;
}

/** Draws a plot into an element and keeps its width in sync. */
function usePlot(container: RefObject<HTMLDivElement | null>, props: ChartProps): RefObject<Plot | null> {
  const { times, series, unit, partial, formatTime, formatTick = formatTime, height = 220 } = props;
  const plotted = useMemo(
    () => ({ times, series, unit, partial, formatTick, height }),
    [times, series, unit, partial, formatTick, height],
  );
  const latest = useRef(plotted);
  const plot = useRef<Plot | null>(null);
  useEffect(() => {
    latest.current = plotted;
    plot.current?.change(plotted);
  }, [plotted]);
  useEffect(() => {
    const element = container.current;
    if (element === null) return;
    const drawn = plotInto(element, latest.current);
    plot.current = drawn;
    const observer = new ResizeObserver(() => drawn.resize(element.clientWidth));
    observer.observe(element);
    return () => {
      observer.disconnect();
      drawn.destroy();
      plot.current = null;
    };
  }, [container]);
  return plot;
}

function Legend({ series, isPartial }: { series: readonly Series[]; isPartial: boolean }) {
  // More than one thin line would only repeat the colors of the thick lines, so thin lines are then left out.
  const tails = series.filter(({ tail }) => tail).length;
  const listed = tails > 1 ? series.filter(({ tail }) => !tail) : series;
  return (
    <figcaption
      className="mt-2 flex min-h-5 flex-wrap items-center gap-x-4 gap-y-1 text-xs text-ink-3"
      aria-hidden="true"
    >
      {listed.map((one) => (
        <span key={one.label} className="inline-flex min-w-0 items-center gap-1.5">
          <Swatch series={one} />
          <span className="truncate">{one.label}</span>
        </span>
      ))}
      {isPartial && series.some(({ shape }) => shape === 'bar') && (
        <span className="ml-auto">Striped: incomplete period</span>
      )}
    </figcaption>
  );
}

/** Highlights columns; `from` and `to` in pixels from the left of the chart. */
function Band({ from, to }: { from: number; to: number }) {
  return (
    <div
      className="pointer-events-none absolute top-2 bottom-6 rounded-sm bg-ink/6"
      style={{ left: from, width: to - from }}
    />
  );
}

interface ReadOutProps {
  time: string;
  series: readonly Series[];
  index: number;
  columns: number;
  /** Left edge of the hovered column, in pixels from the left of the chart. */
  left: number;
  width: number;
  unit: Unit;
}

function ReadOut({ time, series, index, columns, left, width, unit }: ReadOutProps) {
  const bars = series.filter(({ shape }) => shape === 'bar');
  const sum = bars.reduce((total, { values }) => total + (values[index] ?? 0), 0);
  const isLeft = index < columns / 2;
  return (
    <div className="pointer-events-none absolute inset-0 z-10">
      <Band from={left} to={left + width} />
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

type SwatchProps = Pick<Series, 'shape' | 'color' | 'faint' | 'tail'>;

/**
 * The color and shape of a series: a square, a thick or thin (`tail`) line, or a dashed one for the previous period
 * (`faint`).
 */
function Swatch({ series: { shape, color, faint = false, tail = false } }: { series: SwatchProps }) {
  if (faint) return <span className="w-3 shrink-0 border-t border-dashed border-ink-3" />;
  const background = `var(--series-${color})`;
  if (shape !== 'line') return <span className="size-2 shrink-0 rounded-[3px]" style={{ background }} />;
  return (
    <span
      className={`w-3 shrink-0 ${tail ? 'h-0.5 opacity-60' : 'h-1 rounded-full'}`}
      style={{ background }}
    />
  );
}
