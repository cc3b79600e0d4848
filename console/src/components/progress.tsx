import { Progress as Base } from '@base-ui/react/progress';

export function Progress({
  label,
  fraction,
  text,
}: {
  label: string;
  /** 0 to 1; null: unknown. */
  fraction: number | null;
  /** Progress as text, such as "40 of 98 MB". */
  text: string;
}) {
  return (
    <Base.Root value={fraction === null ? null : fraction * 100} aria-valuetext={text}>
      <div className="mb-1.5 flex items-baseline justify-between gap-3 text-xs">
        <Base.Label className="min-w-0 truncate text-ink-2">{label}</Base.Label>
        <span className="shrink-0 text-ink-3 tabular-nums">{text}</span>
      </div>
      <Base.Track className="h-1.5 overflow-hidden rounded-full bg-sunken">
        <Base.Indicator
          className={`rounded-full bg-accent transition-[width] ${fraction === null ? 'w-1/3 animate-pulse-soft' : ''}`}
        />
      </Base.Track>
    </Base.Root>
  );
}
