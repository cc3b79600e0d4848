import type { Element } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { ButtonLink } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Failed, Skeleton } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { whole } from '../../format/number.ts';
import { Link } from '../../shell/link.tsx';

type Key = Element<'listKeys'>;

/** Most that one answer has. */
const PAGE = 1000;
/** Those that are named here; all of them have a page of their own. */
const SHOWN = 5;

/** How many keys an account has, and those used last. */
export function AccountKeys({ accountId }: { accountId: string }) {
  const keys = useRead('listKeys', { query: { account_id: accountId, limit: PAGE } });
  return (
    <Card
      title="Keys"
      hint={keys.data && countsOf(keys.data.data, keys.data.next_cursor !== null)}
      actions={
        <ButtonLink size="small" to={`/keys?account=${accountId}`}>
          All keys
        </ButtonLink>
      }
    >
      {keys.data === undefined ? (
        keys.error === null ? (
          <Skeleton className="h-24 w-full" />
        ) : (
          <Failed error={keys.error} retry={() => void keys.refetch()} />
        )
      ) : (
        <LastUsed accountId={accountId} keys={keys.data.data} />
      )}
    </Card>
  );
}

function countsOf(keys: readonly Key[], more: boolean): string {
  const count = (status: Key['status']) => keys.filter((key) => key.status === status).length;
  const counts = (['live', 'revoked', 'expired'] as const)
    .map((status) => ({ status, number: count(status) }))
    .filter(({ status, number }) => status === 'live' || number > 0)
    .map(({ status, number }) => `${whole(number)} ${status}`);
  return `${counts.join(', ')}${more ? ' among the first thousand' : ''}.`;
}

function LastUsed({ accountId, keys }: { accountId: string; keys: readonly Key[] }) {
  const used = keys
    .filter(({ status }) => status === 'live')
    .toSorted((a, b) => (b.last_used_at ?? '').localeCompare(a.last_used_at ?? ''))
    .slice(0, SHOWN);
  if (used.length === 0) return <p className="text-sm text-ink-3">It has no live key.</p>;
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
            {at === null ? 'never used' : <Time at={at} relative />}
          </span>
        </li>
      ))}
    </ul>
  );
}
