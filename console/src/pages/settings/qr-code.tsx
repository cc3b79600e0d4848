import { encode } from 'uqr';
import { useMemo } from 'react';

/** Light modules around the picture, without which many a camera does not find it. */
const BORDER = 4;

/** Text for a camera. Dark on light in both schemes, since not every app reads the reverse. */
export function QrCode({ text, label }: { text: string; label: string }) {
  const { path, size } = useMemo(() => drawn(text), [text]);
  return (
    <svg
      role="img"
      aria-label={label}
      viewBox={`0 0 ${size} ${size}`}
      shapeRendering="crispEdges"
      className="size-44 shrink-0 rounded-lg border border-line"
    >
      <rect width={size} height={size} fill="white" />
      <path d={path} fill="black" />
    </svg>
  );
}

/** One line a run of dark modules in a row. */
function drawn(text: string): { path: string; size: number } {
  const { data, size } = encode(text, { ecc: 'M', border: BORDER });
  const path = data.flatMap((row, y) =>
    row.map((dark, x) => {
      if (!dark || row[x - 1]) return '';
      let end = x + 1;
      while (row[end]) end++;
      return `M${x} ${y}h${end - x}v1H${x}z`;
    }),
  );
  return { path: path.join(''), size };
}
