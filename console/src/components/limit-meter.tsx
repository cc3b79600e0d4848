import type { ReactNode } from 'react';
import type { ItemOf } from '../api/client.ts';
import { forecastOf, limitAmount, limitLabel, limitLeft } from '../format/limits.ts';
import { percent, whole } from '../format/number.ts';
import { localTime } from '../format/time.ts';
import { Meter } from './meter.tsx';
import { useNow } from './now.ts';
import { Time } from './time.tsx';

interface LimitMeterProps {
  limitStatus: ItemOf<'readLimits'>;
  /** The scope of the limit, if it is not clear from the context. */
  scope?: ReactNode;
}

/** Shows how much of a limit is used, how much is left, and when it resets. */
export function LimitMeter({ limitStatus, scope }: LimitMeterProps) {
  const { limit, bound, used, last_minute: lastMinute } = limitStatus;
  const label = limitLabel(limit);
  return (
    <>
      {lastMinute === null ? (
        <Meter
          label={label}
          used={Number(used)}
          bound={Number(bound)}
          text={`${limitAmount(limit, used)} of ${limitAmount(limit, bound)}`}
        />
      ) : (
        <Meter
          label={label}
          {...lastMinute}
          text={`${whole(lastMinute.used)} of ${whole(lastMinute.bound)}`}
        />
      )}
      <p className="mt-1 flex flex-wrap justify-between gap-x-3 text-2xs text-ink-3 tabular-nums">
        {scope}
        {lastMinute === null ? (
          <>
            <span>{limitLeft(limitStatus)} left</span>
            <Reset limitStatus={limitStatus} />
          </>
        ) : (
          <>
            <span>Last 60 seconds</span>
            {/* A full token bucket is not shown, because its capacity may differ from the limit. */}
            {Number(used) > 0 && <span>{limitLeft(limitStatus)} available now</span>}
          </>
        )}
      </p>
      <Pace limitStatus={limitStatus} />
    </>
  );
}

/** How much will be used at the end of the day or month, at the pace since its start. */
function Pace({ limitStatus }: LimitMeterProps) {
  const forecast = forecastOf(limitStatus, useNow(30_000));
  if (forecast === null) return null;
  const { window, share, amount, reachedAtMs } = forecast;
  return (
    <p
      className={`mt-1 text-2xs tabular-nums ${share > 1 ? 'text-warn' : 'text-ink-3'}`}
      title={`What was used since the start of the ${window}, divided by the share of it that has passed`}
    >
      At this pace: {limitAmount(limitStatus.limit, amount)} by the end of the {window}, {percent(share)} of
      the limit
      {reachedAtMs !== null && (
        <>
          , reached <Time at={new Date(reachedAtMs).toISOString()} />
        </>
      )}
    </p>
  );
}

function Reset({ limitStatus: { used, resets_at: at } }: LimitMeterProps) {
  if (at === null || Number(used) === 0) return null;
  return (
    <span>
      Resets <Time at={at} relative /> ({localTime(at)})
    </span>
  );
}

interface LimitMetersProps {
  title?: string;
  limitStatuses: readonly ItemOf<'readLimits'>[];
}

/** A list of limits with their usage. */
export function LimitMeters({ title, limitStatuses }: LimitMetersProps) {
  return (
    <section>
      {title !== undefined && (
        <h3 className="mb-3 truncate text-xs font-medium text-ink-2" title={title}>
          {title}
        </h3>
      )}
      {limitStatuses.length === 0 ? (
        <p className="text-sm text-ink-3">No overall limits</p>
      ) : (
        <ul className="space-y-4">
          {limitStatuses.map((limitStatus) => (
            <li key={`${limitStatus.model ?? ''} ${limitStatus.limit}`}>
              <LimitMeter limitStatus={limitStatus} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
