import type { IncomingHttpHeaders } from 'node:http';
import type { Actor } from '../accounts/audit.ts';

/** Where a request comes from, and what it carries. */
export interface Visit {
  headers: IncomingHttpHeaders;
  /** The address of the network that it comes from. */
  ip: string;
}

/** The header in which better-auth is told whence a request comes; what a client sends under this name it never sees. */
export const ADDRESS_HEADER = 'x-sluice-ip';

/** What better-auth is told of a request: no more than it needs. */
export function authHeaders({ headers, ip }: Visit): Headers {
  const told = new Headers({ [ADDRESS_HEADER]: ip });
  if (headers.cookie !== undefined) told.set('cookie', headers.cookie);
  const agent = headers['user-agent'];
  if (agent !== undefined) told.set('user-agent', agent.slice(0, 300));
  return told;
}

/** For the audit log: a person, from where they are. */
export function personActor(personId: string, { ip }: Visit): Actor {
  return { id: `person:${personId}`, ip };
}
