import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { isAboveZero, isMeasured, isolated, painted, type Series } from './series.ts';
import { ticks } from './ticks.ts';
import { tickLabels, valueTicks, type Unit } from './value-axis.ts';

export interface Plotted {
  times: readonly number[];
  series: readonly Series[];
  unit: Unit;
  /** Index of the period that has not ended yet; its bars are striped. */
  partial: number | undefined;
  formatTick: (unixSeconds: number) => string;
  height: number;
}

export interface Plot {
  /** Replaces the data. The number and style of the series must stay the same. */
  change: (plotted: Plotted) => void;
  resize: (width: number) => void;
  /** Returns the index of the time nearest to an x position in CSS pixels. */
  indexAt: (left: number) => number;
  /** Returns the column of a time, in CSS pixels from the left of the chart. */
  column: (index: number) => { left: number; width: number };
  destroy: () => void;
}

const FONT = '11px "Geist Variable", sans-serif';
/** Opacity of a tail; its swatch has the same. */
const TAIL_OPACITY = '60%';
/** Width of a time label on the axis, in CSS pixels. */
const TICK_WIDTH = 76;
/** Space to the right of the plot, and approximate width of the y axis, in CSS pixels. */
const PADDING = 8;
const Y_AXIS = 48;
/** Space above the plot, height of the x axis, and minimum distance between values on the y axis, in CSS pixels. */
const TOP = 10;
const X_AXIS = 24;
const VALUE_SPACE = 36;

/** Draws a plot into an element, in the colors of the current theme. */
export function plotInto(element: HTMLElement, first: Plotted): Plot {
  const now = { plotted: first };
  const plot = new uPlot(optionsOf(now, element), dataOf(first), element);
  // The font may load after the first drawing.
  void document.fonts.ready.then(() => plot.redraw(false, true));
  return {
    change: (plotted) => {
      now.plotted = plotted;
      plot.setData(dataOf(plotted));
    },
    resize: (width) => plot.setSize({ width, height: now.plotted.height }),
    indexAt: (left) => {
      const index = Math.round(plot.posToVal(left - plot.over.offsetLeft, 'x'));
      return Math.max(0, Math.min(now.plotted.times.length - 1, index));
    },
    column: (index) => {
      const left = plot.valToPos(index - 0.5, 'x');
      return { left: plot.over.offsetLeft + left, width: plot.valToPos(index + 0.5, 'x') - left };
    },
    destroy: () => plot.destroy(),
  };
}

/** Uses indexes as x values, so that clock changes do not affect the spacing. */
function dataOf({ times, series }: Plotted): uPlot.AlignedData {
  return [times.map((_, index) => index), ...painted(series).map(({ values }) => values)];
}

function optionsOf(now: { plotted: Plotted }, element: HTMLElement): uPlot.Options {
  const { series, height } = now.plotted;
  // A canvas has no variables.
  const color = (name: string) => {
    element.style.color = `var(--${name})`;
    return getComputedStyle(element).color;
  };
  const maxTicks = Math.floor((height - TOP - X_AXIS) / VALUE_SPACE);
  const text = { stroke: color('color-ink-3'), font: FONT, gap: 6, ticks: { show: false } };
  return {
    width: element.clientWidth,
    height,
    padding: [TOP, PADDING, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, range: () => [-0.5, now.plotted.times.length - 0.5] },
      y: { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] },
    },
    axes: [
      {
        ...text,
        grid: { show: false },
        size: X_AXIS,
        splits: ({ width }) =>
          isMeasured(now.plotted.series)
            ? ticks(now.plotted.times, Math.max(1, Math.floor(width / TICK_WIDTH)))
            : [],
        values: (plot, indexes) =>
          indexes.map((index) => {
            const { times, formatTick } = now.plotted;
            const tick = formatTick(times[index] ?? 0);
            return fits(plot, tick, (times.length - 0.5 - index) / times.length) ? tick : '';
          }),
      },
      {
        ...text,
        grid: { stroke: color('color-line'), width: 1 },
        size: axisWidth,
        splits: (_, __, ___, top) => {
          const { series, unit } = now.plotted;
          if (!isMeasured(series)) return [];
          // Without values above 0, the top of the scale is arbitrary.
          return isAboveZero(series) ? valueTicks(unit, top, maxTicks) : [0];
        },
        values: (_, values) => tickLabels(now.plotted.unit, values),
      },
    ],
    series: [{}, ...painted(series).map(({ series: one }) => look(one, series, color))],
    hooks: { draw: [(plot) => stripe(plot, now.plotted, color('color-surface'))] },
  };
}

/** Distance and width of the stripes of a partial bar, in CSS pixels. */
const STRIPES = 5;
const STRIPE = 1.5;

/** Draws stripes in the color of the background over the column of the partial time. */
function stripe(plot: uPlot, { partial, series }: Plotted, background: string): void {
  if (partial === undefined || !series.some(({ shape }) => shape === 'bar')) return;
  const { ctx } = plot;
  const { top, height } = plot.bbox;
  const left = plot.valToPos(partial - 0.5, 'x', true);
  const right = plot.valToPos(partial + 0.5, 'x', true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, right - left, height);
  ctx.clip();
  ctx.strokeStyle = background;
  ctx.lineWidth = STRIPE * devicePixelRatio;
  ctx.beginPath();
  for (let at = left - height; at < right; at += STRIPES * devicePixelRatio) {
    ctx.moveTo(at, top + height);
    ctx.lineTo(at + height, top);
  }
  ctx.stroke();
  ctx.restore();
}

/**
 * Returns whether a centered tick label stays inside the chart. `toTheRight` is the share of the plot's width to the
 * right of the tick.
 */
function fits({ ctx, width }: uPlot, tick: string, toTheRight: number): boolean {
  ctx.save();
  ctx.font = FONT;
  const half = ctx.measureText(tick).width / 2;
  ctx.restore();
  return half <= toTheRight * (width - Y_AXIS) + PADDING;
}

function axisWidth({ ctx }: uPlot, values: string[] | null): number {
  ctx.save();
  ctx.font = FONT;
  const widest = Math.max(0, ...(values ?? []).map((value) => ctx.measureText(value).width));
  ctx.restore();
  return Math.max(32, Math.ceil(widest) + 14);
}

function look(one: Series, all: readonly Series[], color: (name: string) => string): uPlot.Series {
  const full = color(one.faint ? 'color-ink-3' : `series-${one.color}`);
  const stroke = one.tail ? `color-mix(in oklch, ${full} ${TAIL_OPACITY}, transparent)` : full;
  if (one.shape === 'bar') {
    // Rounded bars inside a stack would show the bar behind them.
    const radius = all.filter(({ shape }) => shape === 'bar').length > 1 ? 0 : 0.12;
    const paths = uPlot.paths.bars?.({ size: [0.72, 48], radius });
    return { fill: stroke, width: 0, points: { show: false }, ...(paths && { paths }) };
  }
  return {
    stroke,
    width: one.faint || one.tail ? 1.25 : 1.75,
    ...(one.faint && { dash: [4, 4] }),
    spanGaps: false,
    points: {
      show: true,
      size: 5,
      fill: stroke,
      filter: (plot, index) => isolated(plot.data[index] ?? []),
    },
    ...(one.shape === 'area' && { fill: `color-mix(in oklch, ${stroke} 16%, transparent)` }),
  };
}
