import { genericOAuth, type GenericOAuthConfig } from 'better-auth/plugins/generic-oauth';
import { APIError } from 'better-auth/api';
import type { BetterAuthOptions } from 'better-auth/types';
import { insertAccount } from '../accounts/accounts.ts';
import { appendAudit } from '../accounts/audit.ts';
import { isEmail, putMember } from '../accounts/users.ts';
import type { ProviderConfig } from '../config/schema.ts';
import type { Database } from '../database/database.ts';
import type { Transaction } from '../database/schema.ts';
import type { Secret } from '../support/secret.ts';
import { acceptAllInvitations } from './invitations.ts';

/** The options of better-auth for providers. */
export type ProviderAuth = ReturnType<typeof providerAuth>;

export interface ProviderOptions {
  database: Database;
  providers: readonly ProviderConfig[];
  secretOf: (variable: string) => Secret;
  /** Whether users without an invitation can sign in, and get an account. */
  allowUnknownUsers: boolean;
}

/** A user whom better-auth creates. */
export interface NewUser {
  id: string;
  name: string;
  email: string;
}

/**
 * Returns the options for sign-in with Google, GitHub and OpenID Connect providers. New users need an email address
 * that the provider has verified, because it is matched with existing users and invitations.
 */
export function providerAuth({ database, providers, secretOf, allowUnknownUsers }: ProviderOptions) {
  const builtIn = providers.filter(({ issuer }) => issuer === undefined);
  const generic = providers.flatMap(({ issuer, ...rest }) =>
    issuer === undefined ? [] : [{ ...rest, issuer }],
  );
  return {
    social: Object.fromEntries(
      builtIn.map(({ id, clientId, clientSecretEnv }) => [
        id,
        { clientId, clientSecret: secretOf(clientSecretEnv).reveal() },
      ]),
    ),
    plugins: [
      lazyGenericOAuth(
        generic.map(({ id, name, issuer, clientId, clientSecretEnv }) => ({
          providerId: id,
          name,
          discoveryUrl: `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`,
          clientId,
          clientSecret: secretOf(clientSecretEnv).reveal(),
          scopes: ['openid', 'profile', 'email'],
          pkce: true,
          // better-auth verifies an ID token, but also accepts a response without one.
          requireIdTokenVerification: true,
          accountSubject: ({ tokens }) => subjectOf(tokens.idToken, clientId),
        })),
      ),
    ],
    /**
     * Returns an error code for the sign-in page, or undefined if the user may sign in. Returning users are identified
     * by the provider's user ID.
     */
    async validate({ user, source }) {
      if (source.action === 'sign-in') return undefined;
      if (user.emailVerified !== true || !user.email) return { error: 'email_not_verified' };
      if (!isEmail(user.email) || user.email !== user.email.trim()) return { error: 'email_not_valid' };
      if (source.action === 'link-account' || allowUnknownUsers) return undefined;
      const invitation = await database.kysely
        .selectFrom('invitations')
        .select('id')
        .where('email', '=', user.email.toLowerCase())
        .where('expires_at', '>', Date.now())
        .executeTakeFirst();
      return invitation === undefined ? { error: 'not_invited' } : undefined;
    },
    /**
     * Adds a new user to the accounts of their invitations, or creates an account. Rejects with an `APIError`
     * `not_invited` if the invitations were withdrawn since `validate`.
     */
    async onCreated(transaction, { id, name, email }) {
      const by = { id: `user:${id}`, ip: null };
      await appendAudit(transaction, by, { action: 'user.create', subject: by.id });
      if (await acceptAllInvitations(transaction, { id, email }, by)) return;
      if (!allowUnknownUsers) throw new APIError('FORBIDDEN', { code: 'not_invited' });
      const account = await insertAccount(transaction, { name }, by);
      await putMember(transaction, { accountId: account.id, userId: id, role: 'owner' }, by);
    },
  } satisfies {
    social: BetterAuthOptions['socialProviders'];
    plugins: BetterAuthOptions['plugins'];
    validate: NonNullable<BetterAuthOptions['user']>['validateUserInfo'];
    onCreated: (transaction: Transaction, user: NewUser) => Promise<void>;
  };
}

/**
 * Returns the user's ID at the provider from a verified ID token. Throws, which fails the sign-in, if there is no ID
 * token, or if it is for several clients and was not issued to this one (OpenID Connect Core, 3.1.3.7).
 */
function subjectOf(idToken: string | undefined, clientId: string): string {
  if (idToken === undefined) throw new TypeError('the provider returned no ID token');
  const payload = Buffer.from(idToken.split('.')[1] ?? '', 'base64url').toString();
  const { sub, aud, azp } = JSON.parse(payload) as { sub: string; aud: string | string[]; azp?: string };
  if (Array.isArray(aud) && aud.length > 1 && azp !== clientId) {
    throw new TypeError('the ID token was issued to another client');
  }
  return sub;
}

/**
 * Returns better-auth's plugin without discovery at startup, which would delay every sign-in until all providers have
 * responded. Marks all providers as pending instead: the plugin then discovers each provider at its first sign-in, with
 * a timeout of 10 s.
 */
function lazyGenericOAuth(config: GenericOAuthConfig[]) {
  const pending = new Map(config.map((provider) => [provider.providerId, provider]));
  return {
    ...genericOAuth({ config }),
    init: () => ({ context: { genericOAuthPendingDiscovery: pending } }),
  };
}
