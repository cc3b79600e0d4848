import type { ItemOf } from '../api/client.ts';
import { limitAmount, limitLabel, limitLeft } from '../format/limits.ts';
import { Meter } from './meter.tsx';
import { Time } from './time.tsx';

/** Shows how much of a limit is used, how much is left, and when it resets. */
export function LimitMeter({ limitStatus }: { limitStatus: ItemOf<'readLimits'> }) {
  const { limit, bound, used, resets_at: resetsAt } = limitStatus;
  return (
    <>
      <Meter
        label={limitLabel(limit)}
        used={Number(used)}
        bound={Number(bound)}
        text={`${limitAmount(limit, used)} of ${limitAmount(limit, bound)}`}
      />
      <p className="mt-1 flex justify-between gap-3 text-2xs text-ink-3 tabular-nums">
        <span>{limitLeft(limitStatus)} left</span>
        {resetsAt !== null && Number(used) > 0 && (
          <span>
            Resets <Time at={resetsAt} relative />
          </span>
        )}
      </p>
    </>
  );
}
