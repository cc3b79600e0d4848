import type { ApiError } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';

/**
 * Returns the state of a sign-in. After the response, it lasts until the session has been read again, which determines the
 * next step.
 */
export function useSigningIn(signIn: { isPending: boolean; isSuccess: boolean; error: ApiError | null }) {
  const session = useRead('getSession', undefined);
  return {
    busy: signIn.isPending || (signIn.isSuccess && session.isFetching),
    error: signIn.isSuccess ? session.error : signIn.error,
  };
}
