import { Meter as Base } from '@base-ui/react/meter';
import type { ReactNode } from 'react';

export function Meter({
  label,
  used,
  bound,
  text,
}: {
  label: ReactNode;
  used: number;
  bound: number;
  text: string;
}) {
  const share = bound > 0 ? Math.min(1, used / bound) : 1;
  const tone = share >= 1 ? 'bg-bad' : share >= 0.8 ? 'bg-warn' : 'bg-accent';
  return (
    <Base.Root value={share * 100} aria-valuetext={text}>
      <div className="mb-1.5 flex items-baseline justify-between gap-3 text-xs">
        <Base.Label className="min-w-0 truncate text-ink-2">{label}</Base.Label>
        <span className="shrink-0 text-ink-3 tabular-nums">{text}</span>
      </div>
      <Base.Track className="h-1.5 overflow-hidden rounded-full bg-sunken">
        <Base.Indicator className={`rounded-full transition-[width] ${tone}`} />
      </Base.Track>
    </Base.Root>
  );
}
