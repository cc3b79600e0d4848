import { z } from 'zod';
import { MAX_EMAIL } from '../../../accounts/bounds.ts';
import { operations } from './operation.ts';
import { user, role } from './users.ts';
import { characters, component, line, name, newEmail } from './schemas.ts';

/** The response of operations without a result. */
export const done = component('Done', z.object({ done: z.literal(true) }));

/** A password to set. */
export const newPassword = characters(10, 128).describe('10 to 128 characters.');

/** A password to check. */
export const password = characters(0, 128);

/** An email address to look up. */
const email = line(MAX_EMAIL);

export const linkToken = line(100).describe('The part of the link after the `#`.');

/** The signed-in user. */
export const me = component(
  'SignedInUser',
  user.extend({
    has_password: z.boolean(),
    providers: z.array(z.string()).describe('IDs of the providers that the user has signed in with.'),
  }),
);

const session = component(
  'Session',
  z.object({
    user: me.nullable().describe('Null: not signed in.'),
    accounts: z
      .array(
        z.object({
          id: z.string(),
          name: z.string(),
          role,
          plan: z.string().nullable().describe('Null: the default plan.'),
          status: z.enum(['active', 'suspended', 'closed']),
        }),
      )
      .describe('Accounts that the user is a member of, oldest membership first.'),
    setup_needed: z.boolean().describe('Whether there is no operator yet.'),
    sign_in: z.object({
      providers: z.array(z.object({ id: z.string(), name: z.string() })),
      password_reset: z.boolean().describe('Whether a forgotten password can be reset by email.'),
      second_factor_due: z
        .boolean()
        .describe('Whether a sign-in in this browser is waiting for its second factor.'),
    }),
    public_url: z.string().describe('Public URL of the service, without `/v1`.'),
    version: z.string().describe('Version of the service.'),
  }),
);

const signInStatus = component(
  'SignInResult',
  z.object({
    status: z
      .enum(['signed_in', 'second_factor'])
      .describe('`second_factor`: a second factor is required to complete the sign-in.'),
  }),
);

/** A path that no URL parser resolves to another origin. */
const OWN_PATH = /^\/(?:[!-.0-[\]-~][!-~]{0,1998})?$/;

/** Signing in and out. The session is in cookies, never in a body. */
export const sessionOperations = operations({
  getSession: {
    route: 'GET /api/session',
    summary: 'Get the signed-in user, their accounts, and the available ways to sign in.',
    access: 'open',
    response: session,
  },
  checkSetupLink: {
    route: 'POST /api/setup/check',
    summary: 'Check the token of a setup link without using it.',
    access: 'open',
    body: component('SetupLinkToken', z.strictObject({ token: linkToken })),
    response: done,
    errors: ['invalid_link', 'too_many_attempts'],
  },
  setUp: {
    route: 'POST /api/setup',
    summary: 'Create and sign in the first operator, with the token of a setup link.',
    access: 'open',
    body: component(
      'SetUp',
      z.strictObject({
        token: linkToken,
        name,
        email: newEmail,
        password: newPassword,
      }),
    ),
    response: done,
    errors: ['invalid_link', 'too_many_attempts'],
  },
  signIn: {
    route: 'POST /api/sign-in',
    summary: 'Sign in with a password.',
    access: 'open',
    body: component('SignIn', z.strictObject({ email, password })),
    response: signInStatus,
    errors: ['wrong_credentials', 'too_many_attempts'],
  },
  signInSecondFactor: {
    route: 'POST /api/sign-in/second-factor',
    summary: 'Complete a sign-in with the second factor. Each code works once.',
    access: 'open',
    body: component('SecondFactor', z.strictObject({ code: line(50), kind: z.enum(['totp', 'recovery']) })),
    response: signInStatus,
    errors: ['sign_in_required', 'wrong_credentials', 'too_many_attempts'],
  },
  signInWithProvider: {
    route: 'POST /api/sign-in/provider',
    summary: 'Start a sign-in with a provider. Redirect the browser to the returned URL.',
    access: 'open',
    body: component(
      'SignInWithProvider',
      z.strictObject({
        provider: line(50).describe('ID of a provider that `getSession` lists.'),
        return_to: z
          .string()
          .regex(OWN_PATH, 'expected a path of this service')
          .optional()
          .describe('Path of the page to return to. Default: `/`.'),
      }),
    ),
    response: component('ProviderUrl', z.object({ url: z.string() })),
    errors: ['not_found', 'provider_unavailable', 'too_many_attempts'],
  },
  finishProviderSignIn: {
    route: 'GET /api/auth/callback/{provider}',
    summary: 'Callback URL for providers.',
    access: 'open',
    status: 303,
    query: z.looseObject({}),
    response: null,
    errors: ['too_many_attempts'],
  },
  signOut: {
    route: 'POST /api/sign-out',
    summary: 'Sign out.',
    access: 'open',
    response: done,
  },
  forgotPassword: {
    route: 'POST /api/password/forgot',
    summary:
      'Send a password reset link. The response does not show whether a user with this address exists.',
    access: 'open',
    body: component('ForgottenPassword', z.strictObject({ email })),
    response: done,
    errors: ['not_configured', 'too_many_attempts'],
  },
  resetPassword: {
    route: 'POST /api/password/reset',
    summary: 'Set a new password with the token of a reset link. Ends all sessions of the user.',
    access: 'open',
    body: component('NewPassword', z.strictObject({ token: linkToken, password: newPassword })),
    response: done,
    errors: ['invalid_link', 'too_many_attempts'],
  },
});
