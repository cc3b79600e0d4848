import { Monitor, Smartphone, SquareTerminal } from 'lucide-react';
import { act } from '../../api/act.ts';
import type { ItemOf } from '../../api/client.ts';
import { useList } from '../../api/queries.ts';
import { confirm } from '../../components/confirm.tsx';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { SkeletonRows } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { deviceOf, type Device } from './device.ts';

type Session = ItemOf<'listSessions'>;

/** The sessions of the user. */
export function Sessions() {
  const sessions = useList('listSessions', undefined);
  const others = sessions.data?.filter(({ current }) => !current).length ?? 0;
  const endOthers = () =>
    confirm({
      title: others === 1 ? 'Sign out the other session?' : `Sign out ${others} other sessions?`,
      action: 'Sign out',
      children: <p>You stay signed in on this device only.</p>,
      run: () => act('endOtherSessions', undefined, { done: 'Signed out all other sessions' }),
    });
  return (
    <Card
      title="Sessions"
      hint="Devices where you are signed in. If you do not recognize one, sign it out and change your password."
      flush
      actions={
        <Button size="small" disabled={others === 0} onClick={() => void endOthers()}>
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
  const device = deviceOf(userAgent);
  const Icon = ICONS[device.kind];
  const end = () =>
    confirm({
      title: `Sign out ${device.label}?`,
      action: 'Sign out',
      children: <p>You have to sign in again on that device.</p>,
      run: () => act('endSession', { params: { id } }, { done: 'Session signed out' }),
    });
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
        <Button size="small" aria-label={`Sign out ${device.label}`} onClick={() => void end()}>
          Sign out
        </Button>
      )}
    </li>
  );
}
