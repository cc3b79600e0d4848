import { createContext, use, type ReactNode } from 'react';
import type { Answer } from '../api/client.ts';

type Session = Answer<'getSession'>;
/** A session in which somebody has signed in. */
export type SignedIn = Session & { person: NonNullable<Session['person']> };

const Context = createContext<SignedIn | null>(null);

/** Who has signed in, for all pages inside the shell. */
export function useSession(): SignedIn {
  const session = use(Context);
  if (session === null) throw new TypeError('a page for people who have signed in is shown to nobody');
  return session;
}

/** Tells everything inside who has signed in. */
export function SessionProvider({ session, children }: { session: SignedIn; children: ReactNode }) {
  return <Context value={session}>{children}</Context>;
}
