import { useEffect, useRef, useState } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { useScheme } from '../shell/appearance.ts';

export interface Series {
  label: string;
  /** One for each time; null: nothing was measured. */
  values: readonly (number | null)[];
  /** `bar`s of several series stand on each other; `area` is a line with its ground filled. */
  shape: 'bar' | 'line' | 'area';
  /** One of the six colours of the theme, 1 to 6. */
  colour: number;
}

interface ChartProps {
  /** What it shows, for those who do not see it. */
  label: string;
  /** Unix seconds, rising. */
  times: readonly number[];
  series: readonly Series[];
  /** How a value is written on the axis and in the legend. */
  format: (value: number) => string;
  /** How a time is written over the point that is looked at. */
  formatTime: (unixSeconds: number) => string;
  /** Opens what a point stands for. */
  onOpen?: ((index: number) => void) | undefined;
  /** In pixels. */
  height?: number;
}

/** Numbers over time, drawn; with the same numbers in a table for those who do not see it. */
export default function Chart(props: ChartProps) {
  const { label, times, series, format, formatTime, height = 220 } = props;
  const place = useRef<HTMLDivElement>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const scheme = useScheme();
  const latest = useRef(props);
  latest.current = props;
  const shape = JSON.stringify([
    series.map(({ label, shape, colour }) => [label, shape, colour]),
    height,
    scheme,
  ]);

  const plot = useRef<uPlot | null>(null);
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const drawn = new uPlot(
      optionsOf(latest, element.clientWidth, setPointed),
      dataOf(latest.current),
      element,
    );
    plot.current = drawn;
    const observer = new ResizeObserver(() =>
      drawn.setSize({ width: element.clientWidth, height: latest.current.height ?? 220 }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      drawn.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(dataOf({ times, series })), [times, series]);

  return (
    <figure className="min-w-0">
      <div
        ref={place}
        style={{ height }}
        aria-hidden="true"
        className={`w-full overflow-hidden ${props.onOpen ? 'cursor-pointer' : ''}`}
      />
      <figcaption
        className="mt-2 flex min-h-5 flex-wrap items-center gap-x-4 gap-y-1 text-xs text-ink-3"
        aria-hidden="true"
      >
        {series.map(({ label, values, colour }) => {
          const value = pointed === null ? undefined : values[pointed];
          return (
            <span key={label} className="inline-flex items-center gap-1.5">
              <span className="size-2 rounded-[3px]" style={{ background: `var(--series-${colour})` }} />
              {label}
              {value !== undefined && value !== null && (
                <span className="font-medium text-ink tabular-nums">{format(value)}</span>
              )}
            </span>
          );
        })}
        <span className="ml-auto tabular-nums">
          {pointed !== null && times[pointed] !== undefined ? formatTime(times[pointed]) : ''}
        </span>
      </figcaption>
      <table className="sr-only">
        <caption>{label}</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            {series.map(({ label }) => (
              <th key={label} scope="col">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {times.map((time, index) => (
            <tr key={time}>
              <th scope="row">{formatTime(time)}</th>
              {series.map(({ label, values }) => {
                const value = values[index];
                return <td key={label}>{value === null || value === undefined ? '' : format(value)}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}

/** Bars that stand on each other are drawn from the top one down, each as high as all below it and itself. */
function dataOf({ times, series }: Pick<ChartProps, 'times' | 'series'>): uPlot.AlignedData {
  const stacked: (number | null)[][] = [];
  let below: readonly number[] = times.map(() => 0);
  for (const { shape, values } of series) {
    if (shape !== 'bar') stacked.push([...values]);
    else {
      below = below.map((sum, index) => sum + (values[index] ?? 0));
      stacked.push([...below]);
    }
  }
  return [[...times], ...stacked.toReversed()];
}

function optionsOf(
  latest: { current: ChartProps },
  width: number,
  point: (index: number | null) => void,
): uPlot.Options {
  const { series, height = 220 } = latest.current;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const text = colour('ink-3');
  const grid = { stroke: colour('line'), width: 1 };
  const font = '11px "Geist Variable", sans-serif';
  return {
    width,
    height,
    padding: [10, 4, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
    scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] } },
    axes: [
      { stroke: text, grid: { show: false }, ticks: { show: false }, font, size: 24, gap: 6 },
      {
        stroke: text,
        grid,
        ticks: { show: false },
        font,
        gap: 6,
        size: 56,
        splits: undefined,
        values: (_, values) => values.map((value) => latest.current.format(value)),
      },
    ],
    series: [
      {},
      ...series.toReversed().map((one): uPlot.Series => {
        const stroke = colour(`series-${one.colour}`);
        return one.shape === 'bar'
          ? {
              label: one.label,
              fill: stroke,
              width: 0,
              points: { show: false },
              paths: uPlot.paths.bars?.({ size: [0.72, 48], radius: 0.12 }),
            }
          : {
              label: one.label,
              stroke,
              width: 1.75,
              points: { show: false },
              spanGaps: true,
              ...(one.shape === 'area' ? { fill: `color-mix(in oklch, ${stroke} 16%, transparent)` } : {}),
            };
      }),
    ],
    hooks: {
      setCursor: [(plot) => point(plot.cursor.idx ?? null)],
      ready: [
        (plot) => {
          plot.over.addEventListener('mouseleave', () => point(null));
          plot.over.addEventListener('click', () => {
            const { idx } = plot.cursor;
            if (idx !== null && idx !== undefined) latest.current.onOpen?.(idx);
          });
        },
      ],
    },
  };
}
