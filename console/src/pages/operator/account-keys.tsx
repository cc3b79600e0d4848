import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { ButtonLink } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Skeleton } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { whole } from '../../format/number.ts';
import { Link } from '../../components/link.tsx';

type Key = ItemOf<'listKeys'>;

/** Maximum page size of the API. */
const PAGE = 1000;
/** Number of keys listed here. */
const SHOWN = 5;

/** Counts the keys of an account and lists those used last. */
export function AccountKeys({ accountId }: { accountId: string }) {
  const keys = useRead('listKeys', { query: { account_id: accountId, limit: PAGE } });
  return (
    <Card
      title="API keys"
      hint={keys.data && countsOf(keys.data.data, keys.data.next_cursor !== null)}
      actions={
        <ButtonLink size="small" to={`/keys?account=${accountId}`}>
          View all keys
        </ButtonLink>
      }
    >
      <Loaded query={keys} loading={<Skeleton className="h-24 w-full" />}>
        {({ data }) => <LastUsed accountId={accountId} keys={data} />}
      </Loaded>
    </Card>
  );
}

function countsOf(keys: readonly Key[], more: boolean): string {
  const count = (status: Key['status']) => keys.filter((key) => key.status === status).length;
  const counts = (['live', 'revoked', 'expired'] as const)
    .map((status) => ({ status, number: count(status) }))
    .filter(({ status, number }) => status === 'live' || number > 0)
    .map(({ status, number }) => `${whole(number)} ${status === 'live' ? 'active' : status}`);
  return `${counts.join(', ')}${more ? ' (first 1,000 keys)' : ''}`;
}

function LastUsed({ accountId, keys }: { accountId: string; keys: readonly Key[] }) {
  const used = keys
    .filter(({ status }) => status === 'live')
    .toSorted((a, b) => (b.last_used_at ?? '').localeCompare(a.last_used_at ?? ''))
    .slice(0, SHOWN);
  if (used.length === 0) return <p className="text-sm text-ink-3">No active keys</p>;
  return (
    <ul className="divide-y divide-line text-sm">
      {used.map(({ id, name, last_four: lastFour, last_used_at: at }) => (
        <li key={id} className="flex items-baseline justify-between gap-4 py-2 first:pt-0 last:pb-0">
          <Link
            to={`/keys?account=${accountId}&key=${id}`}
            className="min-w-0 truncate font-medium hover:underline"
          >
            {name} <span className="font-mono text-xs font-normal text-ink-3">…{lastFour}</span>
          </Link>
          <span className="shrink-0 text-xs text-ink-3">
            {at === null ? 'Never used' : <Time at={at} relative />}
          </span>
        </li>
      ))}
    </ul>
  );
}
