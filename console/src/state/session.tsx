import { createContext, use, type ReactNode } from 'react';
import type { ItemOf, ResponseOf } from '../api/client.ts';

type Session = ResponseOf<'getSession'>;
/** A session of a signed-in user. */
export type SignedIn = Session & { user: NonNullable<Session['user']> };

/** Whether the session has a user. */
export const isSignedIn = (session: Session): session is SignedIn => session.user !== null;

/** The first user whose pages this document has shown. */
let documentUserId: string | null = null;

/** Returns whether this document may show the pages of a user: it can hold data of an earlier one in memory. */
export function isDocumentOf(userId: string): boolean {
  documentUserId ??= userId;
  return documentUserId === userId;
}

const Context = createContext<SignedIn | null>(null);

/** Returns the session of the signed-in user. Only for pages inside the shell. */
export function useSession(): SignedIn {
  const session = use(Context);
  if (session === null) throw new TypeError('useSession needs a signed-in user');
  return session;
}

/** Returns the status of an account: no keys can be created unless it is active. `active` if it is not one of the user's. */
export function useAccountStatus(accountId: string | undefined): SignedIn['accounts'][number]['status'] {
  return useSession().accounts.find(({ id }) => id === accountId)?.status ?? 'active';
}

/** What the user may do with a key: `change` it (edit or rotate), only `end` it, or nothing. */
export function useKeyRights(): (key: ItemOf<'listKeys'>) => 'change' | 'end' | null {
  const { user } = useSession();
  return ({ kind, status }) => {
    // The service refuses changes of keys that manage all of it.
    if (kind === 'admin' && !user.operator) return null;
    if (status === 'live') return 'change';
    return status === 'damaged' ? 'end' : null;
  };
}

/** Provides the session to all components inside. */
export function SessionProvider({ session, children }: { session: SignedIn; children: ReactNode }) {
  return <Context value={session}>{children}</Context>;
}
