import { act, orToast } from '../api/act.ts';
import { useSession } from '../state/session.tsx';
import { leave } from '../state/user-storage.ts';

/** Returns a function that signs the user out and opens the sign-in page. */
export function useSignOut(): () => void {
  const { user } = useSession();
  return () => void orToast(act('signOut', undefined).then(() => leave(user.id)));
}
