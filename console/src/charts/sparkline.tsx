const HEIGHT = 20;

/** A bar for each of a few values, such as days. `label` describes them. */
export function Sparkline({ values, label }: { values: readonly number[]; label: string }) {
  const largest = Math.max(...values);
  const bars = values.map((value, index) => {
    // The smallest bars are still visible.
    const height = value > 0 ? Math.max(1, (value / largest) * HEIGHT) : 0;
    return `M${index + 0.1} ${HEIGHT}v${-height}h.8v${height}z`;
  });
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${values.length} ${HEIGHT}`}
      preserveAspectRatio="none"
      className="h-6 w-24 text-accent"
    >
      <title>{label}</title>
      <path d={bars.join('')} fill="currentColor" />
    </svg>
  );
}
