import type { Actor } from '../accounts/audit.ts';
import type { AuthenticatedKey } from '../accounts/keys.ts';
import type { UserSession } from '../identity/sessions.ts';

interface PrincipalBase {
  /** For the audit log. */
  readonly actor: Actor;
  /** Whether the caller can manage the whole service. */
  readonly operator: boolean;
  /** Roles by account ID; empty for a key. */
  readonly roles: UserSession['roles'];
}

/** A signed-in user. */
export interface SessionPrincipal extends PrincipalBase {
  readonly session: UserSession;
  readonly key: null;
}

export interface KeyPrincipal extends PrincipalBase {
  readonly session: null;
  readonly key: AuthenticatedKey;
}

/** The caller of the management API. */
export type Principal = SessionPrincipal | KeyPrincipal;

const NO_ROLES: UserSession['roles'] = new Map();

export function principalOfKey(key: AuthenticatedKey, ip: string): KeyPrincipal {
  const actor = { id: `key:${key.id}`, ip };
  return { actor, operator: key.kind === 'admin', roles: NO_ROLES, session: null, key };
}

export function principalOfSession(session: UserSession, ip: string): SessionPrincipal {
  const { id, operator } = session.user;
  const actor = { id: `user:${id}`, ip };
  return { actor, operator, roles: session.roles, session, key: null };
}
