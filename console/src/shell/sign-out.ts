import { useAction } from '../api/queries.ts';
import { useSession } from './session.tsx';
import { clearStored } from './user-storage.ts';

/** Returns a function that signs the user out and opens the sign-in page. */
export function useSignOut(): () => void {
  const { user } = useSession();
  const signOut = useAction('signOut');
  return () => signOut.mutate(undefined, { onSuccess: () => leave(user.id) });
}

/** Deletes what a signed-out user typed from this browser, and opens the sign-in page. */
export function leave(userId: string): void {
  clearStored(userId);
  // A full page load drops all cached data.
  location.assign('/sign-in');
}
