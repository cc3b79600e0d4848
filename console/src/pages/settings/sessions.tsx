import { Monitor, Smartphone, SquareTerminal } from 'lucide-react';
import { useState } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useAction, useList } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Confirm } from '../../components/confirm.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { SkeletonRows } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { deviceOf, type Device } from './device.ts';

type Session = ItemOf<'listSessions'>;

/** The sessions of the user. */
export function Sessions() {
  const sessions = useList('listSessions', undefined);
  const [asking, setAsking] = useState(false);
  const endOthers = useAction('endOtherSessions', {
    changes: ['listSessions'],
    done: 'Signed out all other sessions',
  });
  const others = sessions.data?.filter(({ current }) => !current).length ?? 0;
  return (
    <Card
      title="Sessions"
      hint="Devices where you are signed in. If you do not recognize one, sign it out and change your password."
      flush
      actions={
        <Button size="small" disabled={others === 0} onClick={() => setAsking(true)}>
          Sign out all others
        </Button>
      }
    >
      <Loaded query={sessions} loading={<SkeletonRows rows={3} />}>
        {(loaded) => (
          <ul aria-label="Sessions" className="divide-y divide-line border-t border-line">
            {loaded.map((session) => (
              <SessionItem key={session.id} session={session} />
            ))}
          </ul>
        )}
      </Loaded>
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title={others === 1 ? 'Sign out the other session?' : `Sign out ${others} other sessions?`}
        action="Sign out"
        request={endOthers}
        onConfirm={() => endOthers.mutate(undefined, { onSuccess: () => setAsking(false) })}
      >
        <p>You stay signed in on this device only.</p>
      </Confirm>
    </Card>
  );
}

const ICONS: Record<Device['kind'], typeof Monitor> = {
  desk: Monitor,
  phone: Smartphone,
  program: SquareTerminal,
};

function SessionItem({ session }: { session: Session }) {
  const {
    id,
    current,
    ip,
    user_agent: userAgent,
    last_active_at: lastActiveAt,
    created_at: createdAt,
  } = session;
  const [asking, setAsking] = useState(false);
  const end = useAction('endSession', { changes: ['listSessions'], done: 'Session signed out' });
  const device = deviceOf(userAgent);
  const Icon = ICONS[device.kind];
  return (
    <li className="flex min-h-16 items-center gap-3 px-4 py-3 sm:gap-4 sm:px-5">
      <Icon className="size-5 shrink-0 text-ink-3" aria-hidden="true" />
      <div className="min-w-0 flex-1">
        <p className="flex flex-wrap items-center gap-x-2">
          <span className="truncate font-medium" title={userAgent ?? undefined}>
            {device.label}
          </span>
          {current && <Badge tone="accent">This session</Badge>}
        </p>
        <p className="text-xs leading-5 text-ink-3">
          {ip !== null && <span className="font-mono break-all">{ip}</span>}
          {ip !== null && ', '}
          {current ? (
            'active now'
          ) : (
            <>
              active <Time at={lastActiveAt} relative />
            </>
          )}
          <span className="hidden sm:inline">
            , signed in <Time at={createdAt} relative />
          </span>
        </p>
      </div>
      {!current && (
        <Button size="small" aria-label={`Sign out ${device.label}`} onClick={() => setAsking(true)}>
          Sign out
        </Button>
      )}
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title={`Sign out ${device.label}?`}
        action="Sign out"
        request={end}
        onConfirm={() => end.mutate({ params: { id } }, { onSuccess: () => setAsking(false) })}
      >
        <p>You have to sign in again on that device.</p>
      </Confirm>
    </li>
  );
}
