import { z } from 'zod';
import { operations } from './operation.ts';
import { component, deleted, line, name, pageOf, time } from './schemas.ts';
import { done, newPassword, password } from './session.ts';

const session = component(
  'SessionOfMine',
  z.object({
    id: z.string(),
    created_at: time,
    last_active_at: time.describe('Right to the minute; ISO 8601 in UTC.'),
    expires_at: time.describe('When it ends if nothing is done with it; ISO 8601 in UTC.'),
    ip: z.string().nullable().describe('Address that it was begun from.'),
    user_agent: z.string().nullable(),
    current: z.boolean().describe('It is the one that asks.'),
  }),
);

/** What somebody who does not need one leaves out: those who sign in with a provider have no password. */
const confirmation = component(
  'Confirmation',
  z.strictObject({
    password: password
      .optional()
      .describe(
        'The present password. People without one leave it out, and must have signed in within 10 minutes.',
      ),
  }),
);

const recoveryCodes = z.array(z.string()).describe('Each opens the way once. They are shown this once.');

const CONFIRMED = ['wrong_credentials', 'fresh_sign_in_required', 'too_many_attempts'] as const;

/** What people change about themselves. */
export const meOperations = operations({
  changeMe: {
    method: 'PATCH',
    path: '/api/me',
    summary: 'Change the name of the person who is signed in.',
    access: 'signed-in',
    body: component('MyChange', z.strictObject({ name })),
    answer: component('MyName', z.object({ id: z.string(), name: z.string() })),
  },
  changePassword: {
    method: 'POST',
    path: '/api/me/password',
    summary: 'Set a new password, or the first one. It ends every other session, and renews this one.',
    access: 'signed-in',
    body: component(
      'PasswordChange',
      z.strictObject({
        current_password: password
          .optional()
          .describe('People without one leave it out, and must have signed in within 10 minutes.'),
        new_password: newPassword,
      }),
    ),
    answer: done,
    errors: CONFIRMED,
  },
  deleteMe: {
    method: 'DELETE',
    path: '/api/me',
    summary: 'Forget the person who is signed in. Accounts, keys, ledger and audit log stay.',
    access: 'signed-in',
    body: confirmation,
    answer: done,
    errors: [...CONFIRMED, 'last_operator'],
  },
  beginTwoFactor: {
    method: 'POST',
    path: '/api/me/two-factor',
    summary: 'Make a second factor, which counts once a code of it was given.',
    access: 'signed-in',
    body: confirmation,
    answer: component(
      'NewTwoFactor',
      z.object({
        uri: z.string().describe('`otpauth:` address, for a QR code that authenticator apps read.'),
        recovery_codes: recoveryCodes,
      }),
    ),
    errors: [...CONFIRMED, 'conflict'],
  },
  confirmTwoFactor: {
    method: 'POST',
    path: '/api/me/two-factor/confirm',
    summary: 'Show that the authenticator app has the second factor. From now on signing in takes it.',
    access: 'signed-in',
    body: component('TwoFactorCode', z.strictObject({ code: line(50) })),
    answer: done,
    errors: ['wrong_credentials', 'too_many_attempts'],
  },
  endTwoFactor: {
    method: 'DELETE',
    path: '/api/me/two-factor',
    summary: 'Sign in without a second factor from now on.',
    access: 'signed-in',
    body: confirmation,
    answer: done,
    errors: CONFIRMED,
  },
  renewRecoveryCodes: {
    method: 'POST',
    path: '/api/me/recovery-codes',
    summary: 'Make new recovery codes; the old ones open nothing any more.',
    access: 'signed-in',
    body: confirmation,
    answer: component('RecoveryCodes', z.object({ recovery_codes: recoveryCodes })),
    errors: [...CONFIRMED, 'conflict'],
  },
  listSessions: {
    method: 'GET',
    path: '/api/me/sessions',
    summary: 'List where the person is signed in, the newest first.',
    access: 'signed-in',
    answer: pageOf('SessionPage', session),
  },
  endSession: {
    method: 'DELETE',
    path: '/api/me/sessions/{id}',
    summary: 'End a session of the person who is signed in.',
    access: 'signed-in',
    answer: deleted,
    errors: ['not_found'],
  },
  endOtherSessions: {
    method: 'DELETE',
    path: '/api/me/sessions',
    summary: 'End every session of the person who is signed in but this one.',
    access: 'signed-in',
    answer: done,
  },
});
