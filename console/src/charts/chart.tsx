import { useEffect, useMemo, useRef, useState, type PointerEvent, type RefObject } from 'react';
import { useScheme } from '../shell/appearance.ts';
import { ChartTable } from './chart-table.tsx';
import { plotInto, type Plot } from './plot.ts';
import { ReadOut } from './read-out.tsx';
import { isMeasured, type Series } from './series.ts';
import { Swatch } from './swatch.tsx';

interface ChartProps {
  /** What it shows, for those who do not see it. */
  label: string;
  /** Unix seconds, rising, evenly apart. */
  times: readonly number[];
  series: readonly Series[];
  /** How a value is written at the axis, where there is little room. */
  format: (value: number) => string;
  /** How it is written where it is read; left out: as at the axis. */
  formatExact?: ((value: number) => string) | undefined;
  /** How a time is written over the point that is looked at. */
  formatTime: (unixSeconds: number) => string;
  /** How it is written at the axis; left out: as over the point. */
  formatTick?: ((unixSeconds: number) => string) | undefined;
  /** Values are counts: no fractions stand at the axis. */
  counts?: boolean | undefined;
  /** Opens what a point stands for. Those who use no pointer need another way to it. */
  onOpen?: ((index: number) => void) | undefined;
  /** In pixels. */
  height?: number | undefined;
}

/**
 * Numbers over time, drawn; with the same numbers in a table for those who do not see it. What is pointed at is read
 * out above the chart. A touch reads out, and a second one opens.
 */
export default function Chart(props: ChartProps) {
  const { series, counts, height } = props;
  // What cannot change on a canvas: it is drawn anew then.
  const look = series.map(({ shape, colour, faint }) => [shape, colour, faint]);
  return <Drawn key={JSON.stringify([look, counts, height, useScheme()])} {...props} />;
}

function Drawn(props: ChartProps) {
  const { label, times, series, format, formatExact = format, formatTime, height = 220, onOpen } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = usePlot(place, props);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const point = (event: PointerEvent): Pointed | null => {
    if (plot.current === null || place.current === null || times.length === 0) return null;
    const index = plot.current.placeAt(event.clientX - place.current.getBoundingClientRect().left);
    return { index, ...plot.current.column(index) };
  };
  const at = pointed !== null && pointed.index < times.length ? pointed : null;
  return (
    <figure className="min-w-0">
      <div className="relative" style={{ height }} aria-hidden="true">
        <div
          ref={place}
          className={`h-full w-full touch-pan-y overflow-hidden ${onOpen ? 'cursor-pointer' : ''}`}
          onPointerMove={(event) => setPointed(point(event))}
          onPointerLeave={(event) => event.pointerType === 'mouse' && setPointed(null)}
          onPointerUp={(event) => {
            const next = point(event);
            // The first touch of a point reads it out.
            const opens = event.pointerType === 'mouse' || next?.index === pointed?.index;
            setPointed(next);
            if (opens && next !== null) onOpen?.(next.index);
          }}
        />
        {at !== null && (
          <ReadOut
            {...at}
            time={formatTime(times[at.index] ?? 0)}
            series={series}
            format={formatExact}
            of={times.length}
          />
        )}
        {!isMeasured(series) && (
          <p className="pointer-events-none absolute inset-0 flex items-center justify-center text-xs text-ink-3">
            Nothing was measured here
          </p>
        )}
      </div>
      <Legend series={series} />
      <div className="sr-only">
        <ChartTable {...{ label, times, series, formatTime }} format={formatExact} />
      </div>
    </figure>
  );
}

/** The time that is pointed at, and its column in pixels. */
interface Pointed {
  index: number;
  left: number;
  width: number;
}

/** Keeps a plot in an element, as wide as that. */
function usePlot(place: RefObject<HTMLDivElement | null>, props: ChartProps): RefObject<Plot | null> {
  const { times, series, format, formatTime, formatTick = formatTime, counts = false, height = 220 } = props;
  const plotted = useMemo(
    () => ({ times, series, format, formatTick, counts, height }),
    [times, series, format, formatTick, counts, height],
  );
  const latest = useRef(plotted);
  const plot = useRef<Plot | null>(null);
  useEffect(() => {
    latest.current = plotted;
    plot.current?.change(plotted);
  }, [plotted]);
  useEffect(() => {
    const element = place.current;
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
  }, [place]);
  return plot;
}

/** What is drawn in which colour. */
function Legend({ series }: { series: readonly Series[] }) {
  return (
    <figcaption
      className="mt-2 flex min-h-5 flex-wrap items-center gap-x-4 gap-y-1 text-xs text-ink-3"
      aria-hidden="true"
    >
      {series.map((one) => (
        <span key={one.label} className="inline-flex min-w-0 items-center gap-1.5">
          <Swatch series={one} />
          <span className="truncate">{one.label}</span>
        </span>
      ))}
    </figcaption>
  );
}
