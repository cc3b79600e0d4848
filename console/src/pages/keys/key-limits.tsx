import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { LimitMeter } from '../../components/limit-meter.tsx';
import { ErrorState, Skeleton } from '../../components/states.tsx';

type Key = ItemOf<'listKeys'>;
type LimitStatus = ItemOf<'readLimits'>;

/** Live usage of the limits of a key and its account. */
export function KeyLimits({ of: key }: { of: Key }) {
  const read = useRead(
    'readLimits',
    { query: { account_id: key.account_id, key_id: key.id } },
    { everyMs: 10_000 },
  );
  if (read.data === undefined) {
    return read.error === null ? (
      <Skeleton className="h-24 w-full" />
    ) : (
      <ErrorState error={read.error} retry={() => void read.refetch()} />
    );
  }
  const own = read.data.data.filter(({ scope }) => scope === 'key');
  const shared = read.data.data.filter(({ scope }) => scope === 'account');
  const single = Object.keys(key.limits?.models ?? {});
  return (
    <div className="space-y-5">
      <LimitMeters title="This key" limitStatuses={own} none="No overall limits" />
      {single.length > 0 && <p className="text-xs text-ink-3">Separate limits for {single.join(', ')}</p>}
      <LimitMeters title="Account (shared by all its keys)" limitStatuses={shared} none="No overall limits" />
    </div>
  );
}

function LimitMeters({
  title,
  limitStatuses,
  none,
}: {
  title: string;
  limitStatuses: readonly LimitStatus[];
  none: string;
}) {
  return (
    <section>
      <h4 className="mb-2.5 text-xs font-medium text-ink-3">{title}</h4>
      {limitStatuses.length === 0 ? (
        <p className="text-sm text-ink-3">{none}</p>
      ) : (
        <ul className="space-y-3.5">
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
