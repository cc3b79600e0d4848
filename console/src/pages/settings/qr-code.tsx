import { encode } from 'uqr';
import { useMemo } from 'react';

/** Quiet zone in modules, which cameras need to detect the code. */
const BORDER = 4;

/** A QR code. Dark on light in both color schemes, because not all apps read inverted codes. */
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

/** Returns an SVG path with one rectangle per run of dark modules. */
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
