import type { IncomingHttpHeaders } from 'node:http';
import type { Actor } from '../accounts/audit.ts';

/** The parts of a request that sign-in needs. */
export interface BrowserRequest {
  headers: IncomingHttpHeaders;
  /** IP address of the client. */
  ip: string;
}

/**
 * Passes the IP address to better-auth. Clients cannot forge it, because `authHeaders` ignores the header in their
 * requests.
 */
export const ADDRESS_HEADER = 'x-sluice-ip';

/** Returns the headers that better-auth needs. */
export function authHeaders({ headers, ip }: BrowserRequest): Headers {
  const passed = new Headers({ [ADDRESS_HEADER]: ip });
  if (headers.cookie !== undefined) passed.set('cookie', headers.cookie);
  const agent = headers['user-agent'];
  if (agent !== undefined) passed.set('user-agent', agent.slice(0, 300));
  return passed;
}

/** Returns the user as an actor of the audit log. */
export function userActor(userId: string, { ip }: BrowserRequest): Actor {
  return { id: `user:${userId}`, ip };
}
