import { z } from 'zod';

/** Settings of the console: how people sign in, and how the service writes to them. */

/** The name of an environment variable that holds a secret: the file holds none. */
export const variableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected the name of an environment variable');

const httpUrl = z.url({ protocol: /^https?$/, error: 'expected an http:// or https:// address' });

export const consoleSchema = z
  .strictObject({
    enabled: z.boolean().default(true).describe('Whether the web console is served under `/`.'),
  })
  .prefault({})
  .describe('The web console.');

export const smtpSchema = z
  .strictObject({
    host: z.string().min(1).describe('Name or address of the server.'),
    port: z.int().min(1).max(65_535).default(587).describe('Its port.'),
    secure: z
      .boolean()
      .default(false)
      .describe(
        'Whether the connection is TLS from its first byte, as on port 465. False: it turns to TLS before anything is sent (STARTTLS), unless the server is on this machine.',
      ),
    user: z.string().min(1).optional().describe('Name to sign in to the server with. Left out: none.'),
    passwordEnv: variableName
      .optional()
      .describe('Name of the environment variable that holds the password of `user`.'),
    from: z
      .string()
      .regex(/^[^<>\p{Cc}]*(<[^\s<>@\p{Cc}]+@[^\s<>@\p{Cc}]+>|[^\s<>@\p{Cc}]+@[^\s<>@\p{Cc}]+)$/u, {
        error: 'expected an address, such as "Sluice <sluice@example.org>"',
      })
      .describe('Address that messages come from.'),
  })
  .refine(({ user, passwordEnv }) => (user === undefined) === (passwordEnv === undefined), {
    error: 'expected beside `user`, and only there',
    path: ['passwordEnv'],
  })
  .optional()
  .describe(
    'The mail server for invitations and new passwords. Left out: invitations are handed on as links, and nobody can ask for a new password.',
  );

/** Providers whose addresses are known: they need no `issuer`. */
const KNOWN = ['google', 'github'];

const provider = z
  .strictObject({
    id: z
      .string()
      .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'expected lower-case letters, digits and "-"')
      .describe(
        '`google`, `github`, or a name of your own for another one. Its callback address is `<publicUrl>/api/auth/callback/<id>`.',
      ),
    name: z.string().min(1).max(50).describe('What the button says.'),
    issuer: httpUrl
      .optional()
      .describe(
        'Address of an OpenID Connect provider, such as `https://sso.example.org/realms/main` of Keycloak. Left out for `google` and `github`.',
      ),
    clientId: z.string().min(1).describe('What the provider calls this service.'),
    clientSecretEnv: variableName.describe(
      'Name of the environment variable that holds the secret that goes with it.',
    ),
  })
  .refine(({ id, issuer }) => KNOWN.includes(id) === (issuer === undefined), {
    error: 'expected the address of the provider; only `google` and `github` have none',
    path: ['issuer'],
  })
  .refine(({ id }) => id !== 'credential', {
    error: 'expected another name; `credential` is the password',
    path: ['id'],
  });

export const signInSchema = z
  .strictObject({
    providers: z
      .array(provider)
      .default([])
      .superRefine((list, context) => {
        const ids = list.map(({ id }) => id);
        for (const [index, id] of ids.entries()) {
          if (ids.indexOf(id) === index) continue;
          context.addIssue({ code: 'custom', message: 'expected every id once', path: [index, 'id'] });
        }
      })
      .describe('Providers with whom people can sign in, beside a password.'),
    letInUnknown: z
      .boolean()
      .default(false)
      .describe(
        'Whether people who sign in with a provider and are not known get an account of their own, on the default plan. False: only those who were invited or made by an operator.',
      ),
  })
  .prefault({})
  .describe('How people sign in to the console.');
