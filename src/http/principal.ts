import type { Actor } from '../accounts/audit.ts';
import type { AuthenticatedKey } from '../accounts/keys.ts';
import type { SignedIn } from '../identity/signed-in.ts';

interface PrincipalBase {
  /** The same for the audit log. */
  readonly actor: Actor;
  /** May manage the whole service. */
  readonly operator: boolean;
  /** What a person may do for which account, by its id; a key has no part in any. */
  readonly roles: SignedIn['roles'];
}

/** A person who is signed in to the console. */
export interface PersonPrincipal extends PrincipalBase {
  readonly signedIn: SignedIn;
  readonly key: null;
}

/** A program that has a key. */
export interface KeyPrincipal extends PrincipalBase {
  readonly signedIn: null;
  readonly key: AuthenticatedKey;
}

/** Who calls the management interface. */
export type Principal = PersonPrincipal | KeyPrincipal;

const NO_ROLES: SignedIn['roles'] = new Map();

/** Whoever has this key; `ip` is where the call comes from. */
export function principalOfKey(key: AuthenticatedKey, ip: string): KeyPrincipal {
  const actor = { id: `key:${key.id}`, ip };
  return { actor, operator: key.kind === 'admin', roles: NO_ROLES, signedIn: null, key };
}

/** Whoever has signed in; `ip` is where the call comes from. */
export function principalOfPerson(signedIn: SignedIn, ip: string): PersonPrincipal {
  const { id, operator } = signedIn.person;
  const actor = { id: `person:${id}`, ip };
  return { actor, operator, roles: signedIn.roles, signedIn, key: null };
}
