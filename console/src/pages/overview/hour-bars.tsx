import { Link } from '../../components/link.tsx';
import { counted, whole } from '../../format/number.ts';
import { utcSpan, utcTick } from '../../format/time.ts';
import type { Hour } from './problems.ts';

/** What an hour consists of, from the bottom of its bar. */
const PARTS = [
  { name: 'completed', label: 'Completed', color: 'bg-accent' },
  { name: 'failed', label: 'Failed', color: 'bg-bad' },
  { name: 'refused', label: 'Refused', color: 'bg-warn' },
] as const;

/** The requests of each hour as a bar that is a link. */
export function HourBars({ hours, linkOf }: { hours: readonly Hour[]; linkOf: (hour: Hour) => string }) {
  const highest = Math.max(1, ...hours.map(sumOf));
  const tick = (from: string) => utcTick('hour')(Date.parse(from) / 1000);
  return (
    <figure>
      <ul
        className="flex h-32 items-stretch gap-px border-b border-line sm:gap-0.5"
        aria-label="Requests by hour"
      >
        {hours.map((hour) => {
          const words = PARTS.flatMap(({ name, label }) =>
            name === 'completed' || hour[name] > 0 ? [`${whole(hour[name])} ${label.toLowerCase()}`] : [],
          );
          const title = `${utcSpan('hour')(Date.parse(hour.from) / 1000)}: ${words.join(', ')}`;
          return (
            <li key={hour.from} className="flex min-w-0 flex-1">
              <Link
                to={linkOf(hour)}
                aria-label={title}
                title={title}
                className="flex w-full flex-col-reverse rounded-t-sm hover:bg-hover"
              >
                {PARTS.map(({ name, color }) => (
                  <span
                    key={name}
                    className={`${color} ${hour[name] > 0 ? 'min-h-0.5' : ''}`}
                    style={{ height: `${(100 * hour[name]) / highest}%` }}
                  />
                ))}
              </Link>
            </li>
          );
        })}
      </ul>
      <div className="mt-1 flex justify-between text-2xs text-ink-3 tabular-nums" aria-hidden="true">
        {[0, 8, 16, hours.length - 1].map((at) => (
          <span key={at}>{tick(hours[at]?.from ?? '')}</span>
        ))}
      </div>
      <figcaption className="mt-2 flex flex-wrap gap-x-4 gap-y-1 text-xs text-ink-3">
        {PARTS.map(({ name, label, color }) => (
          <span key={name} className="inline-flex items-center gap-1.5">
            <span className={`size-2.5 rounded-sm ${color}`} aria-hidden="true" />
            {label}
          </span>
        ))}
        <span className="ml-auto">Highest: {counted(highest, 'request')} an hour</span>
      </figcaption>
    </figure>
  );
}

const sumOf = ({ completed, failed, refused }: Hour): number => completed + failed + refused;
