import { ago, dateTime, logTime, utc } from '../format/time.ts';
import { useNow } from './now.ts';

interface TimeProps {
  /** ISO 8601; null: never. */
  at: string | null;
  /** Relative to now, such as "3 min ago". */
  relative?: boolean;
  /** To the second and without the year, for logs. */
  log?: boolean;
  /** Text if `at` is null. */
  never?: string;
}

/** A time in the user's time zone, with UTC as tooltip. */
export function Time({ at, relative = false, log = false, never = 'Never' }: TimeProps) {
  if (at === null) return <span className="text-ink-3">{never}</span>;
  return (
    <time dateTime={at} title={`${dateTime(at)} (${utc(at)})`} className="whitespace-nowrap tabular-nums">
      {relative ? <Ago at={at} /> : log ? logTime(at) : dateTime(at)}
    </time>
  );
}

/** Updated every 30 seconds. */
function Ago({ at }: { at: string }) {
  return ago(at, useNow(30_000));
}
