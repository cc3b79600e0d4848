import { useState } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useAction, useRead } from '../../api/queries.ts';
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
        Last used <LastUse of={target} />.{' '}
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
