import { useEffect, useState } from 'react';
import { ago, dateTime, utc } from '../format/time.ts';

interface TimeProps {
  /** ISO 8601; null: never. */
  at: string | null;
  /** Relative to now, such as "3 min ago". */
  relative?: boolean;
  /** Text if `at` is null. */
  never?: string;
}

/** A time in the user's time zone, with UTC as tooltip. */
export function Time({ at, relative = false, never = 'Never' }: TimeProps) {
  const nowMs = useNow(relative);
  if (at === null) return <span className="text-ink-3">{never}</span>;
  return (
    <time dateTime={at} title={`${dateTime(at)} (${utc(at)})`} className="whitespace-nowrap tabular-nums">
      {relative ? ago(at, nowMs) : dateTime(at)}
    </time>
  );
}

/** Returns the current time, updated every 30 seconds. */
function useNow(active: boolean): number {
  const [nowMs, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!active) return;
    const timer = setInterval(() => setNow(Date.now()), 30_000);
    return () => clearInterval(timer);
  }, [active]);
  return nowMs;
}
