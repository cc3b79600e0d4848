import { z } from 'zod';
import { operations } from './operation.ts';
import { component, deleted, line, name, pageOf, time } from './schemas.ts';
import { done, newPassword, password } from './session.ts';

export const session = component(
  'UserSession',
  z.object({
    id: z.string(),
    created_at: time,
    last_active_at: time.describe('Accurate to the minute; ISO 8601 in UTC.'),
    expires_at: time.describe('When the session expires if it is not used; ISO 8601 in UTC.'),
    ip: z.string().nullable().describe('IP address of the sign-in.'),
    user_agent: z.string().nullable(),
    current: z.boolean().describe('Whether this is the session of this request.'),
  }),
);

const confirmation = component(
  'Confirmation',
  z.strictObject({
    password: password
      .optional()
      .describe(
        'Current password. Users without a password omit it, and must have signed in within the last 10 minutes.',
      ),
  }),
);

const recoveryCodes = z.array(z.string()).describe('Each code works once. The codes are shown only once.');

/** Errors of operations that ask for the password. */
const CONFIRMATION_ERRORS = ['wrong_credentials', 'fresh_sign_in_required', 'too_many_attempts'] as const;

/** The signed-in user's own settings. */
export const meOperations = operations({
  changeMe: {
    route: 'PATCH /api/me',
    summary: 'Change your name.',
    access: 'signed-in',
    body: component('ProfileChange', z.strictObject({ name })),
    response: component('Profile', z.object({ id: z.string(), name: z.string() })),
  },
  changePassword: {
    route: 'POST /api/me/password',
    summary: 'Set or change your password. Ends all other sessions and renews this one.',
    access: 'signed-in',
    body: component(
      'PasswordChange',
      z.strictObject({
        current_password: password
          .optional()
          .describe('Users without a password omit it, and must have signed in within the last 10 minutes.'),
        new_password: newPassword,
      }),
    ),
    response: done,
    errors: CONFIRMATION_ERRORS,
  },
  deleteMe: {
    route: 'DELETE /api/me',
    summary: 'Delete your user. Accounts, keys, the ledger and the audit log are kept.',
    access: 'signed-in',
    body: confirmation,
    response: done,
    errors: [...CONFIRMATION_ERRORS, 'last_operator', 'last_owner'],
  },
  beginTwoFactor: {
    route: 'POST /api/me/two-factor',
    summary: 'Begin to set up two-factor authentication. Confirm it with a code to enable it.',
    access: 'signed-in',
    body: confirmation,
    response: component(
      'NewTwoFactor',
      z.object({
        uri: z.string().describe('`otpauth:` URI, for a QR code that authenticator apps can scan.'),
        recovery_codes: recoveryCodes,
      }),
    ),
    errors: [...CONFIRMATION_ERRORS, 'conflict'],
  },
  confirmTwoFactor: {
    route: 'POST /api/me/two-factor/confirm',
    summary: 'Enable two-factor authentication with a code from the authenticator app.',
    access: 'signed-in',
    body: component('TwoFactorCode', z.strictObject({ code: line(50) })),
    response: done,
    errors: ['wrong_credentials', 'too_many_attempts'],
  },
  endTwoFactor: {
    route: 'DELETE /api/me/two-factor',
    summary: 'Disable two-factor authentication.',
    access: 'signed-in',
    body: confirmation,
    response: done,
    errors: CONFIRMATION_ERRORS,
  },
  renewRecoveryCodes: {
    route: 'POST /api/me/recovery-codes',
    summary: 'Create new recovery codes. The previous codes stop working.',
    access: 'signed-in',
    body: confirmation,
    response: component('RecoveryCodes', z.object({ recovery_codes: recoveryCodes })),
    errors: [...CONFIRMATION_ERRORS, 'conflict'],
  },
  listSessions: {
    route: 'GET /api/me/sessions',
    summary: 'List your sessions, newest first.',
    access: 'signed-in',
    response: pageOf('SessionPage', session),
  },
  endSession: {
    route: 'DELETE /api/me/sessions/{id}',
    summary: 'End one of your sessions.',
    access: 'signed-in',
    response: deleted,
    errors: ['not_found'],
  },
  endOtherSessions: {
    route: 'DELETE /api/me/sessions',
    summary: 'End all of your sessions except this one.',
    access: 'signed-in',
    response: done,
  },
});
