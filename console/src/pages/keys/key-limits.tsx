import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { LimitMeter } from '../../components/limit-meter.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Skeleton } from '../../components/states.tsx';

type Key = ItemOf<'listKeys'>;
type LimitStatus = ItemOf<'readLimits'>;

/** Live usage of the limits of a key and its account. */
export function KeyLimits({ of: key }: { of: Key }) {
  const read = useRead(
    'readLimits',
    { query: { account_id: key.account_id, key_id: key.id } },
    { everyMs: 10_000 },
  );
  const single = Object.keys(key.limits?.models ?? {});
  return (
    <Loaded query={read} loading={<Skeleton className="h-24 w-full" />}>
      {({ data }) => (
        <div className="space-y-5">
          <LimitMeters
            title="This key"
            limitStatuses={data.filter(({ scope }) => scope === 'key')}
            none="No overall limits"
          />
          {single.length > 0 && <p className="text-xs text-ink-3">Separate limits for {single.join(', ')}</p>}
          <LimitMeters
            title="Account (shared by all its keys)"
            limitStatuses={data.filter(({ scope }) => scope === 'account')}
            none="No overall limits"
          />
        </div>
      )}
    </Loaded>
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
