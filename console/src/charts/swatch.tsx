import type { Series } from './series.ts';

/** The color of a series: a square, or a dashed line for faint series. */
export function Swatch({ series: { color, faint = false } }: { series: Pick<Series, 'color' | 'faint'> }) {
  return faint ? (
    <span className="w-3 shrink-0 border-t border-dashed border-ink-3" />
  ) : (
    <span className="size-2 shrink-0 rounded-[3px]" style={{ background: `var(--series-${color})` }} />
  );
}
