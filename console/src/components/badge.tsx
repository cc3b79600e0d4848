import type { ReactNode } from 'react';
import type { ItemOf } from '../api/client.ts';
import { useSession } from '../state/session.tsx';

export type Tone = 'good' | 'warn' | 'bad' | 'accent' | 'neutral';

const TONES: Record<Tone, string> = {
  good: 'bg-good-soft text-good',
  warn: 'bg-warn-soft text-warn',
  bad: 'bg-bad-soft text-bad',
  accent: 'bg-accent-soft text-accent',
  neutral: 'bg-sunken text-ink-2',
};

const DOTS: Record<Tone, string> = {
  good: 'bg-good',
  warn: 'bg-warn',
  bad: 'bg-bad',
  accent: 'bg-accent',
  neutral: 'bg-ink-3',
};

/** A label for a state. The color is never the only indication. */
export function Badge({ tone = 'neutral', children }: { tone?: Tone; children: ReactNode }) {
  return (
    <span
      className={`inline-flex h-5 items-center rounded-full px-2 text-2xs font-medium whitespace-nowrap ${TONES[tone]}`}
    >
      {children}
    </span>
  );
}

/** A state as a dot and a word. `live` makes the dot pulse. */
export function Status({
  tone,
  live = false,
  children,
}: {
  tone: Tone;
  live?: boolean;
  children: ReactNode;
}) {
  return (
    <span className="inline-flex max-w-full items-center gap-2 whitespace-nowrap text-ink-2">
      <span
        className={`size-2 shrink-0 rounded-full ${DOTS[tone]} ${live ? 'animate-pulse-soft' : ''}`}
        aria-hidden="true"
      />
      <span className="min-w-0 truncate">{children}</span>
    </span>
  );
}

interface UserCellProps {
  user: Pick<ItemOf<'listUsers'>, 'id' | 'name' | 'email' | 'email_verified'>;
  children?: ReactNode;
}

export function UserCell({ user, children }: UserCellProps) {
  const { user: self } = useSession();
  return (
    <>
      <span className="flex items-center gap-2">
        <span className="truncate font-medium">{user.name}</span>
        {user.id === self.id && <Badge tone="accent">You</Badge>}
        {children}
      </span>
      <span className="flex items-center gap-2 text-xs text-ink-3">
        <span className="truncate">{user.email}</span>
        {!user.email_verified && <Badge tone="warn">Unverified</Badge>}
      </span>
    </>
  );
}
