import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';

/** Clears cached responses after sign-out, so that the next user of this browser cannot see them. */
export function useClearCacheOnSignOut(isSignedOut: boolean): void {
  const client = useQueryClient();
  useEffect(() => {
    if (isSignedOut) client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'getSession' });
  }, [client, isSignedOut]);
}
