import { useRead } from '../api/queries.ts';

const EVERY_MS = 60_000;

/** The number of firing alerts, for the sidebar of operators; nothing if there are none. */
export function FiringCount() {
  const { data } = useRead('readAlertSettings', undefined, { everyMs: EVERY_MS });
  const firing = data?.firing ?? 0;
  if (firing === 0) return null;
  return (
    <span className="ml-auto rounded-full bg-bad-soft px-1.5 text-2xs leading-5 font-medium text-bad tabular-nums">
      {firing}
      <span className="sr-only"> firing</span>
    </span>
  );
}
