import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import { Provider, type Configuration } from 'oidc-provider';
import type { Browser } from './browser.ts';

export interface OidcServer extends AsyncDisposable {
  issuer: string;
  /** `signIn.providers` of the configuration. */
  yaml(rest?: string): string;
  env: NodeJS.ProcessEnv;
  /** Who signs in there next, by the name that never changes. */
  person: { sub: string; email: string; email_verified: boolean; name: string };
  /** Whether the person says no. */
  refuses: boolean;
  /** Goes where the service has sent the browser, signs in there, and comes back: where the service sends it next. */
  visit(browser: Browser, url: string): Promise<string>;
  /** Begins, for a service that is called back at this address. */
  serve(redirectUri: string): void;
}

/** A real OpenID Connect provider, whose people sign in without being asked. */
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
    person: { sub: 'zoe-1', email: 'zoe@example.com', email_verified: true, name: 'Zoe' },
    refuses: false,
    serve: (redirectUri) => serve(server, state, redirectUri),
    async visit(browser, url) {
      const back = await travel(url, issuer);
      const answer = await browser.fetch('GET', back.slice(new URL(back).origin.length));
      return answer.headers.get('location') ?? '';
    },
    [Symbol.asyncDispose]: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
  return state;
}

/** Answers as a provider that knows the service by this address of its. */
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
    // As Keycloak does it: what is known of a person stands in the ID token itself.
    conformIdTokenClaims: false,
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    cookies: { keys: ['a key of tests'] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_context, id) => ({ accountId: id, claims: () => ({ ...state.person, sub: id }) }),
  };
  const provider = new Provider(state.issuer, configuration);
  const callback = provider.callback();
  server.on('request', (request, response) => {
    if (!request.url?.startsWith('/interaction/')) return void callback(request, response);
    void provider.interactionDetails(request, response).then(async ({ params }) => {
      if (state.refuses) {
        await provider.interactionFinished(request, response, { error: 'access_denied' });
        return;
      }
      const accountId = state.person.sub;
      const grant = new provider.Grant({ accountId, clientId: String(params.client_id) });
      grant.addOIDCScope('openid email profile');
      const grantId = await grant.save();
      await provider.interactionFinished(request, response, { login: { accountId }, consent: { grantId } });
    });
  });
}

/** Follows redirects within the provider, with its cookies, to the first address elsewhere. */
async function travel(url: string, issuer: string): Promise<string> {
  const cookies = new Map<string, string>();
  for (let at = url; ;) {
    const answer = await fetch(at, {
      redirect: 'manual',
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
    });
    for (const set of answer.headers.getSetCookie()) {
      const [pair = ''] = set.split(';');
      cookies.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1));
    }
    const location = answer.headers.get('location');
    if (location === null) throw new Error(`${answer.status} at ${at}: ${await answer.text()}`);
    at = new URL(location, at).href;
    if (!at.startsWith(issuer)) return at;
  }
}
