import { useQueryClient } from '@tanstack/react-query';
import { createContext, use, useEffect, type ReactNode } from 'react';

/**
 * Whether the console is up to date. `lost`: the service does not respond. `signed-out`: the session has ended, but the
 * page stays open with its input.
 */
export type Connection = 'up' | 'lost' | 'signed-out';

const Context = createContext<Connection>('up');

/** Returns whether data of the service is current. States in which it was, such as "Ready", are unknown otherwise. */
export function useConnection(): Connection {
  return use(Context);
}

/** Provides the connection. Refetches all data when it is up again, because queries that failed do not retry. */
export function ConnectionProvider({
  connection,
  children,
}: {
  connection: Connection;
  children: ReactNode;
}) {
  const client = useQueryClient();
  const isUp = connection === 'up';
  useEffect(() => {
    if (isUp) return;
    return () => void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'getSession' });
  }, [client, isUp]);
  return <Context value={connection}>{children}</Context>;
}
