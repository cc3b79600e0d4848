import { Monitor, Smartphone, SquareTerminal } from 'lucide-react';
import { useState } from 'react';
import type { Element } from '../../api/client.ts';
import { useAction, useList } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Confirm } from '../../components/confirm.tsx';
import { Failed, SkeletonRows } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { deviceOf, type Device } from './device.ts';

type Session = Element<'listSessions'>;

/** Where the person is signed in. */
export function Sessions() {
  const sessions = useList('listSessions', undefined);
  const [asking, setAsking] = useState(false);
  const endOthers = useAction('endOtherSessions', {
    changes: ['listSessions'],
    done: 'Every other session has ended.',
  });
  const others = sessions.items?.filter(({ current }) => !current).length ?? 0;
  return (
    <Card
      title="Sessions"
      hint="Where you are signed in. End what you do not know, then change your password."
      flush
      actions={
        <Button size="small" disabled={others === 0} onClick={() => setAsking(true)}>
          End all others
        </Button>
      }
    >
      {sessions.items !== undefined ? (
        <ul aria-label="Sessions" className="divide-y divide-line border-t border-line">
          {sessions.items.map((session) => (
            <Line key={session.id} session={session} />
          ))}
        </ul>
      ) : sessions.error === null ? (
        <SkeletonRows rows={3} />
      ) : (
        <Failed error={sessions.error} retry={sessions.refetch} />
      )}
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title={others === 1 ? 'End the other session?' : `End ${others} other sessions?`}
        action="End them"
        busy={endOthers.isPending}
        onConfirm={() => endOthers.mutate(undefined, { onSuccess: () => setAsking(false) })}
      >
        <p>You stay signed in here, and nowhere else.</p>
      </Confirm>
    </Card>
  );
}

const ICONS: Record<Device['kind'], typeof Monitor> = {
  desk: Monitor,
  phone: Smartphone,
  program: SquareTerminal,
};

function Line({ session }: { session: Session }) {
  const {
    id,
    current,
    ip,
    user_agent: userAgent,
    last_active_at: lastActiveAt,
    created_at: createdAt,
  } = session;
  const [asking, setAsking] = useState(false);
  const end = useAction('endSession', { changes: ['listSessions'], done: 'The session has ended.' });
  const device = deviceOf(userAgent);
  const Icon = ICONS[device.kind];
  return (
    <li className="flex min-h-16 items-center gap-3 px-4 py-3 sm:gap-4 sm:px-5">
      <Icon className="size-5 shrink-0 text-ink-3" aria-hidden="true" />
      <div className="min-w-0 flex-1">
        <p className="flex flex-wrap items-center gap-x-2">
          <span className="truncate font-medium" title={userAgent ?? undefined}>
            {device.words}
          </span>
          {current && <Badge tone="accent">This one</Badge>}
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
        <Button
          size="small"
          aria-label={`End the session of ${device.words}`}
          onClick={() => setAsking(true)}
        >
          End
        </Button>
      )}
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title={`End the session of ${device.words}?`}
        action="End it"
        busy={end.isPending}
        onConfirm={() => end.mutate({ params: { id } }, { onSuccess: () => setAsking(false) })}
      >
        <p>Whoever uses it has to sign in again.</p>
      </Confirm>
    </li>
  );
}
