import type { Actor } from '../accounts/audit.ts';
import type { AuthenticatedKey } from '../accounts/keys.ts';
import type { PersonSession } from '../identity/sessions.ts';

interface PrincipalBase {
  /** For the audit log. */
  readonly actor: Actor;
  /** Whether the caller can manage the whole service. */
  readonly operator: boolean;
  /** Roles by account ID; empty for a key. */
  readonly roles: PersonSession['roles'];
}

/** A signed-in user. */
export interface SessionPrincipal extends PrincipalBase {
  readonly session: PersonSession;
  readonly key: null;
}

export interface KeyPrincipal extends PrincipalBase {
  readonly session: null;
  readonly key: AuthenticatedKey;
}

/** The caller of the management API. */
export type Principal = SessionPrincipal | KeyPrincipal;

const NO_ROLES: PersonSession['roles'] = new Map();

export function principalOfKey(key: AuthenticatedKey, ip: string): KeyPrincipal {
  const actor = { id: `key:${key.id}`, ip };
  return { actor, operator: key.kind === 'admin', roles: NO_ROLES, session: null, key };
}

export function principalOfSession(session: PersonSession, ip: string): SessionPrincipal {
  const { id, operator } = session.person;
  const actor = { id: `person:${id}`, ip };
  return { actor, operator, roles: session.roles, session, key: null };
}
