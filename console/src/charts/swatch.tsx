import type { Series } from './series.ts';

type SwatchProps = Pick<Series, 'color' | 'faint' | 'tail'>;

/** The color of a series: a square, a thin line for a percentile (`tail`), or a dashed line for the previous period (`faint`). */
export function Swatch({ series: { color, faint = false, tail = false } }: { series: SwatchProps }) {
  if (faint) return <span className="w-3 shrink-0 border-t border-dashed border-ink-3" />;
  const background = `var(--series-${color})`;
  return tail ? (
    <span className="h-0.5 w-3 shrink-0 opacity-60" style={{ background }} />
  ) : (
    <span className="size-2 shrink-0 rounded-[3px]" style={{ background }} />
  );
}
