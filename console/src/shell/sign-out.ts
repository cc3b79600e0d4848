import { useAction } from '../api/queries.ts';
import { useSession } from '../state/session.tsx';
import { leave } from '../state/user-storage.ts';

/** Returns a function that signs the user out and opens the sign-in page. */
export function useSignOut(): () => void {
  const { user } = useSession();
  const signOut = useAction('signOut');
  return () => signOut.mutate(undefined, { onSuccess: () => leave(user.id) });
}
