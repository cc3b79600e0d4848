import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Card } from '../../components/card.tsx';
import { Meter } from '../../components/meter.tsx';
import { ErrorState, Skeleton } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { limitAmount, limitLabel } from '../../format/limits.ts';
import type { Selection } from './selection.ts';

type LimitStatus = ItemOf<'readLimits'>;

const EVERY_MS = 5000;

interface LimitsCardProps {
  accountId: string;
  selection: Selection;
}

/** Current usage of the limits of the account, and of the selected key and model. */
export function LimitsCard({ accountId, selection: { key, model } }: LimitsCardProps) {
  const query = {
    account_id: accountId,
    ...(key !== null && { key_id: key }),
    ...(model !== null && { model }),
  };
  const account = useRead('getAccount', { params: { id: accountId } });
  const limits = useRead('readLimits', { query }, { everyMs: EVERY_MS, keep: true });
  return (
    <Card
      title="Limits"
      hint={
        account.data
          ? `Current usage, including running requests. Plan: ${account.data.plan ?? 'default'}.`
          : 'Current usage, including running requests.'
      }
    >
      {limits.data === undefined ? (
        limits.error === null ? (
          <Skeleton className="h-24 w-full" />
        ) : (
          <ErrorState error={limits.error} retry={() => void limits.refetch()} />
        )
      ) : limits.data.data.length === 0 ? (
        <p className="text-sm text-ink-3">The plan of this account has no limits.</p>
      ) : (
        <ul className="grid gap-x-8 gap-y-5 sm:grid-cols-2 lg:grid-cols-3">
          {limits.data.data.map((limitStatus) => (
            <li key={`${limitStatus.scope} ${limitStatus.model ?? ''} ${limitStatus.limit}`}>
              <LimitRow limitStatus={limitStatus} />
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function LimitRow({ limitStatus }: { limitStatus: LimitStatus }) {
  const { scope, model, limit, bound, used, resets_at } = limitStatus;
  const text = `${limitAmount(limit, used)} of ${limitAmount(limit, bound)}`;
  return (
    <>
      <Meter label={limitLabel(limit)} used={Number(used)} bound={Number(bound)} text={text} />
      <p className="mt-1.5 flex flex-wrap items-center gap-x-2 gap-y-1 text-xs text-ink-3">
        {scope === 'key' && <Badge>This key</Badge>}
        {model !== null && <span className="truncate">{model}</span>}
        <Reset limit={limit} at={resets_at} />
      </p>
    </>
  );
}

function Reset({ limit, at }: { limit: LimitStatus['limit']; at: string | null }) {
  if (limit === 'requests_in_flight') return <span>Freed when requests finish</span>;
  if (limit === 'requests_per_minute' || limit === 'tokens_per_minute') {
    return <span>Refills within a minute</span>;
  }
  return at === null ? null : (
    <span>
      Resets <Time at={at} />
    </span>
  );
}
