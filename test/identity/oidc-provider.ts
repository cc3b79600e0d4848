import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import { generateKeyPairSync, sign } from 'node:crypto';
import { Provider, type Configuration } from 'oidc-provider';
import type { Browser } from './fixture.ts';

export interface OidcServer extends AsyncDisposable {
  issuer: string;
  /** `signIn.providers` of the configuration. */
  yaml(rest?: string): string;
  env: NodeJS.ProcessEnv;
  /** The user who signs in next. */
  user: { sub: string; email: string; email_verified: boolean; name: string };
  /** Whether the user declines. */
  refuses: boolean;
  /** Claims that replace those of the ID token; null: the provider returns no ID token. */
  idTokenClaims: Readonly<Record<string, unknown>> | null;
  /** Follows the redirect to the provider, signs in, and returns where the service redirects next. */
  visit(browser: Browser, url: string): Promise<string>;
  /** Starts the provider for a service with this callback URL. */
  serve(redirectUri: string): void;
}

/** Starts a real OpenID Connect provider without a sign-in page. */
export async function startOidcProvider(): Promise<OidcServer> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const issuer = `http://127.0.0.1:${port}`;
  const state: OidcServer = {
    issuer,
    yaml: (rest = '') => `signIn:
  providers: [{ id: company, name: Company, issuer: '${issuer}', clientId: sluice, clientSecretEnv: COMPANY_SECRET }]
${rest}`,
    env: { COMPANY_SECRET: 'company secret' },
    user: { sub: 'zoe-1', email: 'zoe@example.com', email_verified: true, name: 'Zoe' },
    refuses: false,
    idTokenClaims: {},
    serve: (redirectUri) => serve(server, state, redirectUri),
    async visit(browser, url) {
      const callbackUrl = await followRedirects(url, issuer);
      const response = await browser.fetch('GET', callbackUrl.slice(new URL(callbackUrl).origin.length));
      return response.headers.get('location') ?? '';
    },
    [Symbol.asyncDispose]: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
  return state;
}

/** Signs the ID tokens. */
const KEY = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;

function serve(server: Server, state: OidcServer, redirectUri: string): void {
  const configuration: Configuration = {
    clients: [
      {
        client_id: 'sluice',
        client_secret: 'company secret',
        redirect_uris: [redirectUri],
        grant_types: ['authorization_code'],
        response_types: ['code'],
      },
    ],
    // Like Keycloak: the ID token contains the claims of the user.
    conformIdTokenClaims: false,
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    cookies: { keys: ['a key of tests'] },
    jwks: { keys: [{ ...KEY.export({ format: 'jwk' }), use: 'sig', alg: 'RS256' }] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_context, id) => ({ accountId: id, claims: () => ({ ...state.user, sub: id }) }),
  };
  const provider = new Provider(state.issuer, configuration);
  provider.use(async (context, next) => {
    await next();
    if (context.oidc?.route !== 'token' || context.status !== 200) return;
    const { id_token: idToken, ...tokens } = context.body as { id_token: string }; // With the scope `openid`.
    context.body = {
      ...tokens,
      ...(state.idTokenClaims && { id_token: withClaims(idToken, state.idTokenClaims) }),
    };
  });
  const callback = provider.callback();
  server.on('request', (request, response) => {
    if (!request.url?.startsWith('/interaction/')) return void callback(request, response);
    void provider.interactionDetails(request, response).then(async ({ params }) => {
      if (state.refuses) {
        await provider.interactionFinished(request, response, { error: 'access_denied' });
        return;
      }
      const accountId = state.user.sub;
      const grant = new provider.Grant({ accountId, clientId: String(params.client_id) });
      grant.addOIDCScope('openid email profile');
      const grantId = await grant.save();
      await provider.interactionFinished(request, response, { login: { accountId }, consent: { grantId } });
    });
  });
}

/** Replaces claims of an ID token, and signs it again. */
function withClaims(idToken: string, claims: object): string {
  const [head = '', payload = ''] = idToken.split('.');
  const before = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object;
  const content = `${head}.${Buffer.from(JSON.stringify({ ...before, ...claims })).toString('base64url')}`;
  return `${content}.${sign('sha256', Buffer.from(content), KEY).toString('base64url')}`;
}

/** Follows redirects within the provider, with its cookies, and returns the first URL elsewhere. */
async function followRedirects(url: string, issuer: string): Promise<string> {
  const cookies = new Map<string, string>();
  for (let at = url; ;) {
    const response = await fetch(at, {
      redirect: 'manual',
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
    });
    for (const set of response.headers.getSetCookie()) {
      const [pair = ''] = set.split(';');
      cookies.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1));
    }
    const location = response.headers.get('location');
    if (location === null) throw new Error(`${response.status} at ${at}: ${await response.text()}`);
    at = new URL(location, at).href;
    if (!at.startsWith(issuer)) return at;
  }
}
