import { genericOAuth, type GenericOAuthConfig } from 'better-auth/plugins/generic-oauth';
import type { BetterAuthOptions } from 'better-auth/types';
import { createAccount } from '../accounts/accounts.ts';
import { appendAudit } from '../accounts/audit.ts';
import { isEmail, setMember } from '../accounts/users.ts';
import type { ProviderConfig } from '../config/schema.ts';
import type { Database } from '../database/database.ts';
import type { Secret } from '../secret.ts';
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
          requireIdTokenVerification: true,
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
    /** Adds a new user to the accounts of their invitations, or creates an account. */
    async onCreated({ id, name, email }) {
      const by = { id: `user:${id}`, ip: null };
      const joined = await database.kysely.transaction().execute(async (transaction) => {
        const note = { action: 'user.create', subject: `user:${id}` } as const;
        await appendAudit(transaction, by, note);
        return await acceptAllInvitations(transaction, { id, email }, by);
      });
      if (joined) return;
      const account = await createAccount(database, { name }, by);
      await setMember(database, { accountId: account.id, userId: id, role: 'owner' }, by);
    },
  } satisfies {
    social: BetterAuthOptions['socialProviders'];
    plugins: BetterAuthOptions['plugins'];
    validate: NonNullable<BetterAuthOptions['user']>['validateUserInfo'];
    onCreated: (user: { id: string; name: string; email: string }) => Promise<void>;
  };
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
