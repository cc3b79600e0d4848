import type { Series } from './series.ts';

type SwatchProps = Pick<Series, 'shape' | 'color' | 'faint' | 'tail'>;

/**
 * The color and shape of a series: a square, a thick or thin (`tail`) line, or a dashed one for the previous period
 * (`faint`).
 */
export function Swatch({ series: { shape, color, faint = false, tail = false } }: { series: SwatchProps }) {
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
