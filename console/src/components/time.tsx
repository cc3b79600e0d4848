import { useEffect, useState } from 'react';
import { ago, dateTime, utc } from '../format/time.ts';

interface TimeProps {
  /** ISO 8601; null: never. */
  at: string | null;
  /** As a distance from now, such as "3 min ago". */
  relative?: boolean;
  /** What stands there where it is null. */
  never?: string;
}

/** A moment in the reader's own time; in UTC on hover. */
export function Time({ at, relative = false, never = 'Never' }: TimeProps) {
  useMinute(relative);
  if (at === null) return <span className="text-ink-3">{never}</span>;
  return (
    <time dateTime={at} title={`${dateTime(at)} (${utc(at)})`} className="whitespace-nowrap tabular-nums">
      {relative ? ago(at, Date.now()) : dateTime(at)}
    </time>
  );
}

/** Draws anew with every minute, since distances grow. */
function useMinute(active: boolean): void {
  const [, draw] = useState(0);
  useEffect(() => {
    if (!active) return;
    const timer = setInterval(() => draw((count) => count + 1), 30_000);
    return () => clearInterval(timer);
  }, [active]);
}
