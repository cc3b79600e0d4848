import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';

/** Forgets all that was read for somebody once nobody is signed in, so that who comes next sees none of it. */
export function useNobody(isNobody: boolean): void {
  const client = useQueryClient();
  useEffect(() => {
    if (isNobody) client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'getSession' });
  }, [client, isNobody]);
}
