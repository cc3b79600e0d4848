import type { ItemOf } from '../api/client.ts';
import { Badge } from './badge.tsx';

/** The email address of a user in a list, and whether it is unverified. */
export function UserEmail({ user }: { user: Pick<ItemOf<'listUsers'>, 'email' | 'email_verified'> }) {
  return (
    <span className="flex items-center gap-2 text-xs text-ink-3">
      <span className="truncate">{user.email}</span>
      {!user.email_verified && <Badge tone="warn">Unverified</Badge>}
    </span>
  );
}
