import { z } from 'zod';
import { httpUrl, uniqueIds, variableName } from './values.ts';

/** Settings of the console, sign-in and email. */

export const consoleSchema = z
  .strictObject({
    enabled: z.boolean().default(true).describe('Whether the web console is served at `/`.'),
  })
  .prefault({})
  .describe('The web console.');

export const smtpSchema = z
  .strictObject({
    host: z.string().min(1).describe('Host name or IP address of the mail server.'),
    port: z.int().min(1).max(65_535).default(587).describe('Port of the mail server.'),
    secure: z
      .boolean()
      .default(false)
      .describe(
        'Whether the connection uses TLS from the start, as on port 465. False: STARTTLS is required, unless the server is on this machine.',
      ),
    user: z.string().min(1).optional().describe('User name for the mail server. Default: no authentication.'),
    passwordEnv: variableName
      .optional()
      .describe('Name of the environment variable with the password of `user`.'),
    from: z
      .string()
      .regex(/^[^<>\p{Cc}]*(<[^\s<>@\p{Cc}]+@[^\s<>@\p{Cc}]+>|[^\s<>@\p{Cc}]+@[^\s<>@\p{Cc}]+)$/u, {
        error: 'expected an email address, such as "Sluice <sluice@example.org>"',
      })
      .describe('Sender address of emails.'),
  })
  .refine(({ user, passwordEnv }) => (user === undefined) === (passwordEnv === undefined), {
    error: 'expected both `user` and `passwordEnv`, or neither',
    path: ['passwordEnv'],
  })
  .optional()
  .describe(
    'Mail server for invitations and password resets. Default: none; invitations are shared as links, and users cannot request a password reset.',
  );

/** Providers that need no `issuer`. */
const BUILT_IN = ['google', 'github'];

const provider = z
  .strictObject({
    id: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'expected lowercase letters, digits and "-"')
      .describe(
        '`google`, `github`, or any other name for an OpenID Connect provider. The callback URL is `<publicUrl>/api/auth/callback/<id>`.',
      ),
    name: z.string().min(1).max(50).describe('Provider name on the sign-in button.'),
    issuer: httpUrl
      .optional()
      .describe(
        'Issuer URL of an OpenID Connect provider, such as `https://sso.example.org/realms/main` for Keycloak. Not used for `google` and `github`.',
      ),
    clientId: z.string().min(1).describe('Client ID of this service at the provider.'),
    clientSecretEnv: variableName.describe('Name of the environment variable with the client secret.'),
  })
  .refine(({ id, issuer }) => BUILT_IN.includes(id) === (issuer === undefined), {
    error: 'expected an issuer URL for an OpenID Connect provider, and none for `google` and `github`',
    path: ['issuer'],
  })
  .refine(({ id }) => id !== 'credential', {
    error: 'expected another name; `credential` is reserved',
    path: ['id'],
  });

export const signInSchema = z
  .strictObject({
    providers: z
      .array(provider)
      .default([])
      .superRefine(uniqueIds('expected a unique ID'))
      .describe('Providers that users can sign in with, in addition to a password.'),
    allowUnknownUsers: z
      .boolean()
      .default(false)
      .describe(
        'Whether unknown users who sign in with a provider get a new account on the default plan. False: only users who were invited or created by an operator can sign in.',
      ),
  })
  .prefault({})
  .describe('Sign-in to the console.');
