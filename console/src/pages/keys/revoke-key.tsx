import { useState } from 'react';
import { act } from '../../api/act.ts';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Time } from '../../components/time.tsx';
import { useNow } from '../../components/now.ts';
import { confirm } from '../../components/confirm.tsx';
import { Skeleton } from '../../components/states.tsx';
import { counted } from '../../format/number.ts';
import { LastUse } from './last-use.tsx';

type Key = ItemOf<'listKeys'>;

/** Confirms revoking a key and shows its recent use. */
export function revokeKey(key: Key): void {
  void confirm({
    title: `Revoke ${key.name}?`,
    action: 'Revoke key',
    children: <Consequences target={key} />,
    run: () => act('revokeKey', { params: { id: key.id } }, { done: `Key ${key.name} revoked` }),
  });
}

/** Confirms revoking several keys, and lists those that were used lately. Resolves to whether they were revoked. */
export function revokeKeys(accountId: string, keys: readonly Key[]): Promise<boolean> {
  const what = counted(keys.length, 'key');
  return confirm({
    title: `Revoke ${what}?`,
    action: `Revoke ${what}`,
    children: <RecentUse keys={keys} />,
    run: () =>
      act(
        'revokeKeys',
        { body: { account_id: accountId, ids: keys.map(({ id }) => id) } },
        { done: ({ data }) => `${counted(data.length, 'key')} revoked` },
      ),
  });
}

/** How recent uses are pointed out, in milliseconds. */
const RECENT_MS = 7 * 86_400_000;

function RecentUse({ keys }: { keys: readonly Key[] }) {
  const now = useNow(60_000);
  const recent = keys.filter(({ last_used_at: at }) => at !== null && Date.parse(at) > now - RECENT_MS);
  return (
    <>
      {recent.length > 0 ? (
        <>
          <p>
            {recent.length === 1 ? 'One of them was' : `${recent.length} of them were`} used in the last 7
            days:
          </p>
          <ul className="max-h-40 space-y-0.5 overflow-y-auto">
            {recent.map(({ id, name, last_used_at: at }) => (
              <li key={id} className="flex justify-between gap-3">
                <span className="truncate font-medium">{name}</span>
                <span className="shrink-0 text-ink-3">
                  <Time at={at} relative />
                </span>
              </li>
            ))}
          </ul>
        </>
      ) : (
        <p>None of them was used in the last 7 days.</p>
      )}
      <p>
        Within a second, new requests with these keys are refused and running ones end. This cannot be undone.
      </p>
    </>
  );
}

function Consequences({ target }: { target: Key }) {
  const { id, account_id, last_used_at } = target;
  const days = useRead('readUsage', { query: { account_id, key_id: id, by: 'day' } });
  const [today] = useState(() => new Date().toISOString().slice(0, 10));
  const rows = days.data?.data;
  const month = rows?.reduce((sum, { requests }) => sum + requests, 0) ?? 0;
  const ofToday = rows?.find(({ day }) => day === today)?.requests ?? 0;
  if (last_used_at === null) {
    return <p>This key was never used. Revoking it cannot be undone.</p>;
  }
  return (
    <>
      <p>
        Last used <LastUse apiKey={target} />.{' '}
        {rows === undefined ? (
          days.isPending && <Skeleton className="mt-1 h-4 w-64" />
        ) : (
          <>
            The key sent <strong>{counted(ofToday, 'request')}</strong> today and{' '}
            <strong>{counted(month, 'request')}</strong> this month (UTC).
          </>
        )}
      </p>
      <p>
        Within a second, new requests with this key are refused and running ones end. This cannot be undone.
      </p>
    </>
  );
}
