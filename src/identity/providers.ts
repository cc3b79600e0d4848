import { genericOAuth, type GenericOAuthConfig } from 'better-auth/plugins/generic-oauth';
import type { BetterAuthOptions } from 'better-auth/types';
import { createAccount } from '../accounts/accounts.ts';
import { appendAudit } from '../accounts/audit.ts';
import { setMember } from '../accounts/people.ts';
import type { ProviderConfig } from '../config/schema.ts';
import type { Database } from '../database/database.ts';
import type { Secret } from '../secret.ts';
import { joinAsInvited } from './invitations.ts';

/** The settings of better-auth that are about providers. */
export type ProviderAuth = ReturnType<typeof providerAuth>;

export interface ProviderOptions {
  database: Database;
  providers: readonly ProviderConfig[];
  secretOf: (variable: string) => Secret;
  /** Whether somebody who is not known gets an account of their own. */
  letInUnknown: boolean;
}

/**
 * Sign-in with Google, GitHub and any OpenID Connect provider. Only a provider that vouches for the e-mail address
 * lets somebody in: by it they are known, or invited.
 */
export function providerAuth({ database, providers, secretOf, letInUnknown }: ProviderOptions) {
  const known = providers.filter(({ issuer }) => issuer === undefined);
  const others = providers.flatMap(({ issuer, ...rest }) =>
    issuer === undefined ? [] : [{ ...rest, issuer }],
  );
  return {
    social: Object.fromEntries(
      known.map(({ id, clientId, clientSecretEnv }) => [
        id,
        { clientId, clientSecret: secretOf(clientSecretEnv).reveal() },
      ]),
    ),
    plugins: [
      discoveredWhenUsed(
        others.map(({ id, name, issuer, clientId, clientSecretEnv }) => ({
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
    /** Who is let in; an error is told to the sign-in page. Who has come before is known by more than an address. */
    async validate({ user, source }) {
      if (source.action === 'sign-in') return undefined;
      if (user.emailVerified !== true || !user.email) return { error: 'email_not_verified' };
      if (source.action === 'link-account' || letInUnknown) return undefined;
      const invitation = await database.kysely
        .selectFrom('invitations')
        .select('id')
        .where('email', '=', user.email.toLowerCase())
        .where('expires_at', '>', Date.now())
        .executeTakeFirst();
      return invitation === undefined ? { error: 'not_invited' } : undefined;
    },
    /** Gives somebody new what they were invited to, or an account of their own. */
    async welcome({ id, name, email }) {
      const by = { id: `person:${id}`, ip: null };
      const joined = await database.kysely.transaction().execute(async (transaction) => {
        const note = {
          action: 'person.create',
          subject: `person:${id}`,
          accountId: null,
          detail: {},
        } as const;
        await appendAudit(transaction, by, note);
        return await joinAsInvited(transaction, { id, email }, by);
      });
      if (joined) return;
      const account = await createAccount(database, { name }, by);
      await setMember(database, { accountId: account.id, personId: id, role: 'owner' }, by);
    },
  } satisfies {
    social: BetterAuthOptions['socialProviders'];
    plugins: BetterAuthOptions['plugins'];
    validate: NonNullable<BetterAuthOptions['user']>['validateUserInfo'];
    welcome: (user: { id: string; name: string; email: string }) => Promise<void>;
  };
}

/**
 * The plugin, but for when it asks providers what they offer. By itself it does so before anything else, one after the
 * other and for as long as each takes; a password shall wait for no provider. What it could not find out then, it asks
 * when somebody signs in with the provider, for 10 s at most: so it is told that it knows of none yet.
 */
function discoveredWhenUsed(config: GenericOAuthConfig[]) {
  const pending = new Map(config.map((provider) => [provider.providerId, provider]));
  return {
    ...genericOAuth({ config }),
    init: () => ({ context: { genericOAuthPendingDiscovery: pending } }),
  };
}
