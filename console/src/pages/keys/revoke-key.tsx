import { useState } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useAction, useRead } from '../../api/queries.ts';
import { Time } from '../../components/time.tsx';
import { useNow } from '../../components/now.ts';
import { Confirm } from '../../components/confirm.tsx';
import { Skeleton } from '../../components/states.tsx';
import { counted } from '../../format/number.ts';
import { LastUse } from './last-use.tsx';

type Key = ItemOf<'listKeys'>;

interface RevokeKeyProps {
  /** Null: closed. */
  target: Key | null;
  onClose: () => void;
}

/** Confirms revoking a key and shows its recent use. */
export function RevokeKey({ target, onClose }: RevokeKeyProps) {
  const revoke = useAction('revokeKey', {
    changes: ['listKeys', 'getKey'],
    done: ({ name }) => `Key ${name} revoked`,
  });
  return (
    <Confirm
      open={target !== null}
      onClose={onClose}
      title={`Revoke ${target?.name ?? 'the key'}?`}
      action="Revoke key"
      request={revoke}
      onConfirm={() => {
        if (target !== null) revoke.mutate({ params: { id: target.id } }, { onSuccess: onClose });
      }}
    >
      {target !== null && <Consequences target={target} />}
    </Confirm>
  );
}

interface RevokeKeysProps {
  accountId: string;
  /** Null: closed. */
  targets: readonly Key[] | null;
  onClose: () => void;
  onRevoked: () => void;
}

/** How recent uses are pointed out, in milliseconds. */
const RECENT_MS = 7 * 86_400_000;

/** Confirms revoking several keys, and lists those that were used lately. */
export function RevokeKeys({ accountId, targets, onClose, onRevoked }: RevokeKeysProps) {
  const revoke = useAction('revokeKeys', {
    changes: ['listKeys', 'getKey'],
    done: ({ data }) => `${counted(data.length, 'key')} revoked`,
  });
  const now = useNow(60_000);
  const keys = targets ?? [];
  const recent = keys.filter(({ last_used_at: at }) => at !== null && Date.parse(at) > now - RECENT_MS);
  const what = counted(keys.length, 'key');
  return (
    <Confirm
      open={targets !== null}
      onClose={onClose}
      title={`Revoke ${what}?`}
      action={`Revoke ${what}`}
      request={revoke}
      onConfirm={() =>
        revoke.mutate(
          { body: { account_id: accountId, ids: keys.map(({ id }) => id) } },
          { onSuccess: onRevoked },
        )
      }
    >
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
    </Confirm>
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
