import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { lonely, painted, type Series } from './series.ts';
import { ticks } from './ticks.ts';

/** What a plot is drawn from. */
export interface Plotted {
  times: readonly number[];
  series: readonly Series[];
  /** Of values at the axis. */
  format: (value: number) => string;
  /** Of times below the chart. */
  formatTick: (unixSeconds: number) => string;
  /** Values are counts: no fractions stand at the axis. */
  counts: boolean;
  height: number;
}

/** A chart on a canvas. */
export interface Plot {
  /** Shows other values; series have to be as many, and look as before. */
  change: (plotted: Plotted) => void;
  resize: (width: number) => void;
  /** The place of the time that is nearest to that many CSS pixels from the left of the chart. */
  placeAt: (left: number) => number;
  /** The column of a time, in CSS pixels from the left of the chart. */
  column: (place: number) => { left: number; width: number };
  destroy: () => void;
}

const FONT = '11px "Geist Variable", sans-serif';
/** Room for a time at the axis, in CSS pixels. */
const TICK_WIDTH = 76;
/** To the right of the chart, and about what the axis of values takes to its left, in CSS pixels. */
const PADDING = 8;
const Y_AXIS = 48;

/** Draws into an element, in the colours that the page has now. */
export function plotInto(element: HTMLElement, first: Plotted): Plot {
  const now = { plotted: first };
  const plot = new uPlot(optionsOf(now, element.clientWidth), dataOf(first), element);
  // The typeface may come after the first drawing.
  void document.fonts.ready.then(() => plot.redraw(false, true));
  return {
    change: (plotted) => {
      now.plotted = plotted;
      plot.setData(dataOf(plotted));
    },
    resize: (width) => plot.setSize({ width, height: now.plotted.height }),
    placeAt: (left) => {
      const place = Math.round(plot.posToVal(left - plot.over.offsetLeft, 'x'));
      return Math.max(0, Math.min(now.plotted.times.length - 1, place));
    },
    column: (place) => {
      const left = plot.valToPos(place - 0.5, 'x');
      return { left: plot.over.offsetLeft + left, width: plot.valToPos(place + 0.5, 'x') - left };
    },
    destroy: () => plot.destroy(),
  };
}

/** Times stand at their places, 0, 1, 2: so they are evenly apart whatever the reader's clock does in spring. */
function dataOf({ times, series }: Plotted): uPlot.AlignedData {
  return [times.map((_, place) => place), ...painted(series).map(({ values }) => values)];
}

function optionsOf(now: { plotted: Plotted }, width: number): uPlot.Options {
  const { series, height, counts } = now.plotted;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const whole = (_: uPlot, splits: number[]) =>
    splits.map((value) => (counts && !Number.isInteger(value) ? null : value));
  const text = { stroke: colour('ink-3'), font: FONT, gap: 6, ticks: { show: false } };
  return {
    width,
    height,
    padding: [10, PADDING, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, range: () => [-0.5, now.plotted.times.length - 0.5] },
      y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] },
    },
    axes: [
      {
        ...text,
        grid: { show: false },
        size: 24,
        splits: ({ width }) => ticks(now.plotted.times, Math.max(1, Math.floor(width / TICK_WIDTH))),
        values: (plot, places) =>
          places.map((place) => {
            const { times, formatTick } = now.plotted;
            const tick = formatTick(times[place] ?? 0);
            return fits(plot, tick, (times.length - 0.5 - place) / times.length) ? tick : '';
          }),
      },
      {
        ...text,
        filter: whole,
        grid: { stroke: colour('line'), width: 1, filter: whole },
        size: axisWidth,
        space: 36,
        // A filter leaves null where no value is to be written, which the types do not know.
        values: (_, values: (number | null)[]) =>
          values.map((value) => (value === null ? '' : now.plotted.format(value))),
      },
    ],
    series: [{}, ...painted(series).map(({ series: one }) => look(one, series, colour))],
  };
}

/** Whether a tick in the middle of its time stays inside the chart, with this share of the width to its right. */
function fits({ ctx, width }: uPlot, tick: string, toTheRight: number): boolean {
  ctx.save();
  ctx.font = FONT;
  const half = ctx.measureText(tick).width / 2;
  ctx.restore();
  return half <= toTheRight * (width - Y_AXIS) + PADDING;
}

/** As wide as the longest of its values needs. */
function axisWidth({ ctx }: uPlot, values: string[] | null): number {
  ctx.save();
  ctx.font = FONT;
  const widest = Math.max(0, ...(values ?? []).map((value) => ctx.measureText(value).width));
  ctx.restore();
  return Math.max(32, Math.ceil(widest) + 14);
}

function look(one: Series, all: readonly Series[], colour: (name: string) => string): uPlot.Series {
  const stroke = colour(one.faint ? 'ink-3' : `series-${one.colour}`);
  if (one.shape === 'bar') {
    // Round heads in the middle of a stack would let what stands behind them look through.
    const radius = all.filter(({ shape }) => shape === 'bar').length > 1 ? 0 : 0.12;
    const paths = uPlot.paths.bars?.({ size: [0.72, 48], radius });
    return { fill: stroke, width: 0, points: { show: false }, ...(paths && { paths }) };
  }
  return {
    stroke,
    width: one.faint ? 1.25 : 1.75,
    ...(one.faint && { dash: [4, 4] }),
    spanGaps: false,
    points: {
      show: true,
      size: 5,
      fill: stroke,
      filter: (plot, index) => lonely(plot.data[index] ?? []),
    },
    ...(one.shape === 'area' && { fill: `color-mix(in oklch, ${stroke} 16%, transparent)` }),
  };
}
