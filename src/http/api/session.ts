import type { z } from 'zod';
import { hasOperator, accountsOf, getUser } from '../../accounts/users.ts';
import { credentialsOf } from '../../identity/password.ts';
import {
  finishProviderSignIn,
  signInWithProvider,
  signIn,
  signInSecondFactor,
  signOut,
} from '../../identity/sign-in.ts';
import { forgotPassword, resetPassword } from '../../identity/reset.ts';
import { checkSetupLink, setUp } from '../../identity/setup.ts';
import type { HttpContext } from '../context.ts';
import { sessionOperations, type me } from './contract/session.ts';
import { endpoints } from './endpoint.ts';
import { userJson } from './json.ts';

export const sessionEndpoints = endpoints(sessionOperations, {
  getSession: async ({ context, request, database }) => {
    const { identity, version } = context;
    const presented = await identity.presentedSession(request);
    const user = presented === null || presented.pending ? null : presented.session.user;
    return {
      user: user && (await meJson(context, user.id)),
      accounts: user === null ? [] : await accountsOf(database, user.id),
      setup_needed: !(await hasOperator(database)),
      sign_in: {
        providers: identity.settings.providers.map(({ id, name }) => ({ id, name })),
        password_reset: identity.mailer !== null,
        second_factor_due: presented?.pending === true,
      },
      public_url: context.publicUrl(),
      version,
    };
  },
  checkSetupLink: async ({ context, request, body }) => {
    await checkSetupLink(context.identity, request, body.token);
    return { done: true as const };
  },
  setUp: async ({ context, request, body, responseHeaders }) => {
    setCookies(responseHeaders, await setUp(context.identity, request, body));
    return { done: true as const };
  },
  signIn: async ({ context, request, body, responseHeaders }) => {
    const { status, cookies } = await signIn(context.identity, request, body);
    setCookies(responseHeaders, cookies);
    return { status };
  },
  signInSecondFactor: async ({ context, request, body, responseHeaders }) => {
    setCookies(responseHeaders, await signInSecondFactor(context.identity, request, body));
    return { status: 'signed_in' as const };
  },
  signInWithProvider: async ({ context, request, body, responseHeaders }) => {
    const values = { provider: body.provider, returnTo: body.return_to };
    const { url, cookies } = await signInWithProvider(context.identity, request, values);
    setCookies(responseHeaders, cookies);
    return { url };
  },
  finishProviderSignIn: async ({ context, request, params, query, responseHeaders }) => {
    const parameters = Object.entries(query).filter(
      (pair): pair is [string, string] => typeof pair[1] === 'string',
    );
    const callback = { provider: params.provider, query: new URLSearchParams(parameters) };
    const { location, cookies } = await finishProviderSignIn(context.identity, request, callback);
    setCookies(responseHeaders, cookies);
    responseHeaders.push('location', location);
  },
  signOut: async ({ context, request, responseHeaders }) => {
    setCookies(responseHeaders, await signOut(context.identity, request));
    return { done: true as const };
  },
  forgotPassword: async ({ context, request, body }) => {
    await forgotPassword(context.identity, request, body.email);
    return { done: true as const };
  },
  resetPassword: async ({ context, request, body }) => {
    await resetPassword(context.identity, request, body);
    return { done: true as const };
  },
});

/** Adds `set-cookie` headers. */
export function setCookies(responseHeaders: string[], cookies: readonly string[]): void {
  for (const cookie of cookies) responseHeaders.push('set-cookie', cookie);
}

async function meJson({ identity }: HttpContext, userId: string): Promise<z.input<typeof me>> {
  const user = await getUser(identity.database, userId);
  const { hasPassword, providers } = await credentialsOf(identity.database, userId);
  return { ...userJson(user), has_password: hasPassword, providers };
}
