import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import type { Identity } from '../../src/identity/identity.ts';
import { finishProviderSignIn } from '../../src/identity/sign-in.ts';
import { SILENT } from '../../src/support/log.ts';
import { SQLITE, testDatabases } from '../support/servers.ts';
import { appCode, OPERATOR, startIdentityFixture, type Browser, type IdentityFixture } from './fixture.ts';
import { startOidcProvider, type OidcServer } from './oidc-provider.ts';

const { password } = OPERATOR;

/** Signs in with the provider, and returns the final redirect. */
async function signInWith(company: OidcServer, browser: Browser, returnTo?: string): Promise<string> {
  const body = { provider: 'company', ...(returnTo !== undefined && { return_to: returnTo }) };
  const { url } = await browser.ok('signInWithProvider', { body });
  assert.ok(url.startsWith(company.issuer));
  return await company.visit(browser, url);
}

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let company: OidcServer;
    let fixture: IdentityFixture;
    let operator: Browser;
    before(async () => {
      company = await startOidcProvider();
      fixture = await startIdentityFixture(kind, { yaml: company.yaml(), env: company.env });
      company.serve(`${fixture.test.url}/api/auth/callback/company`);
      operator = await fixture.operator();
    });
    after(async () => {
      await fixture[Symbol.asyncDispose]();
      await company[Symbol.asyncDispose]();
    });

    const signIn = (browser: Browser, returnTo?: string) => signInWith(company, browser, returnTo);

    test('the session lists the providers', async () => {
      const { sign_in } = await fixture.browser().ok('getSession');
      assert.deepEqual(sign_in.providers, [{ id: 'company', name: 'Company' }]);
      const response = await fixture.browser().call('signInWithProvider', { body: { provider: 'other' } });
      assert.deepEqual([response.code, response.param], ['not_found', 'provider']);
    });

    test('users without an invitation cannot sign in, and nothing is stored', async () => {
      const browser = fixture.browser();
      assert.equal(await signIn(browser), '/sign-in?error=not_invited');
      assert.equal((await browser.ok('getSession')).user, null);
      const users = await fixture.database.kysely.selectFrom('users').select('email').execute();
      assert.deepEqual(
        users.map((one) => one.email),
        [OPERATOR.email],
      );
    });

    test('invited users can sign in only with a verified address', async () => {
      const body = { account_id: 'default', email: 'zoe@example.com', role: 'member' };
      await operator.ok('createInvitation', { body });
      company.user.email_verified = false;
      assert.equal(await signIn(fixture.browser()), '/sign-in?error=email_not_verified');
      company.user.email_verified = true;
      const browser = fixture.browser();
      assert.equal(await signIn(browser, '/usage?range=7d'), '/usage?range=7d');
      const session = await browser.ok('getSession');
      assert.equal(session.user?.email, 'zoe@example.com');
      assert.equal(session.user.has_password, false);
      assert.deepEqual(session.user.providers, ['company']);
      assert.deepEqual(
        session.accounts.map(({ id, role }) => [id, role]),
        [['default', 'member']],
      );
      assert.deepEqual((await operator.ok('listInvitations')).data, []);
      const actions = (await fixture.audit()).map((line) => line.split(' ')[0]);
      for (const action of ['user.create', 'user.add_provider', 'invitation.accept', 'user.sign_in']) {
        assert.ok(actions.includes(action), action);
      }
    });

    test('returning users are recognized after their address has changed', async () => {
      company.user.email = 'zoe@elsewhere.example.com';
      const browser = fixture.browser();
      assert.equal(await signIn(browser), '/');
      assert.equal((await browser.ok('getSession')).user?.email, 'zoe@example.com');
      company.user.email = 'zoe@example.com';
    });

    test('tokens of the provider are not stored', async () => {
      const rows = await fixture.database.kysely.selectFrom('credentials').selectAll().execute();
      assert.equal(rows.filter(({ provider }) => provider === 'company').length, 1);
      assert.doesNotMatch(JSON.stringify(rows), /eyJ/);
    });

    test('a second factor is also required after a sign-in with a provider', async () => {
      const browser = fixture.browser();
      await signIn(browser);
      // A recent sign-in is accepted instead of the password.
      const { uri } = await browser.ok('beginTwoFactor', { body: {} });
      await browser.ok('confirmTwoFactor', { body: { code: appCode(uri) } });
      const half = fixture.browser();
      assert.equal(await signIn(half, '/keys'), '/sign-in?to=%2Fkeys');
      const session = await half.ok('getSession');
      assert.equal(session.user, null);
      assert.equal(session.sign_in.second_factor_due, true);
      assert.equal((await half.call('listSessions')).code, 'sign_in_required');
      await half.ok('signInSecondFactor', { body: { code: appCode(uri, 1), kind: 'totp' } });
      assert.equal((await half.ok('getSession')).user?.email, 'zoe@example.com');
      await half.ok('endTwoFactor', { body: {} });
    });

    test('an older sign-in is not accepted instead of the password', async () => {
      const browser = fixture.browser();
      await signIn(browser);
      await fixture.database.kysely
        .updateTable('sessions')
        .set({ created_at: Date.now() - 11 * 60_000 } as never) // The type does not allow this column to be updated.
        .execute();
      assert.equal((await browser.call('beginTwoFactor', { body: {} })).code, 'fresh_sign_in_required');
      assert.equal((await browser.call('deleteMe', { body: {} })).code, 'fresh_sign_in_required');
    });

    test('an existing user with a verified address can sign in with the provider', async () => {
      Object.assign(company.user, { sub: 'olga-1', email: OPERATOR.email, name: 'Olga' });
      const browser = fixture.browser();
      assert.equal(await signIn(browser), '/');
      const { user } = await browser.ok('getSession');
      assert.deepEqual([user?.operator, user?.providers], [true, ['company']]);
    });

    test('the person with the address replaces whoever accepted an invitation to it', async () => {
      // An owner who is not an operator accepts an invitation for another address, and waits for the user with that
      // address to sign in.
      const { id } =
        (await operator.ok('listUsers')).data.find(({ email }) => email === 'zoe@example.com') ?? {};
      assert.ok(id);
      await operator.ok('setMember', { params: { id: 'default', user_id: id }, body: { role: 'owner' } });
      Object.assign(company.user, { sub: 'zoe-1', email: 'zoe@example.com', name: 'Zoe' });
      const owner = fixture.browser();
      await signIn(owner);
      const body = { account_id: 'default', email: 'victim@example.com', role: 'member' };
      const { link } = await owner.ok('createInvitation', { body });
      const token = new URL(link).hash.slice(1);
      const squatter = fixture.browser();
      await squatter.ok('acceptInvitation', { body: { token, name: 'Mine', password } });
      const { uri } = await squatter.ok('beginTwoFactor', { body: { password } });
      await squatter.ok('confirmTwoFactor', { body: { code: appCode(uri) } });
      Object.assign(company.user, { sub: 'victim-1', email: 'victim@example.com', name: 'Victim' });
      const victim = fixture.browser();
      company.user.email_verified = false;
      assert.equal(await signIn(victim), '/sign-in?error=email_not_verified');
      assert.ok((await squatter.ok('getSession')).user);
      company.user.email_verified = true;
      assert.equal(await signIn(victim), '/');
      const { user } = await victim.ok('getSession');
      assert.deepEqual(
        [user?.email_verified, user?.two_factor, user?.has_password, user?.providers],
        [true, false, false, ['company']],
      );
      assert.equal((await squatter.ok('getSession')).user, null);
      const again = { body: { email: 'victim@example.com', password } };
      assert.equal((await squatter.call('signIn', again)).code, 'wrong_credentials');
    });

    test('declining at the provider is reported', async () => {
      company.refuses = true;
      assert.equal(await signIn(fixture.browser()), '/sign-in?error=cancelled');
      company.refuses = false;
    });

    test('the provider must return an ID token that was issued to this service', async () => {
      for (const claims of [
        null,
        { aud: 'other' },
        { aud: ['sluice', 'other'] },
        { aud: ['sluice', 'other'], azp: 'other' },
      ]) {
        company.idTokenClaims = claims;
        const browser = fixture.browser();
        assert.equal(await signIn(browser), '/sign-in?error=provider_failed', JSON.stringify(claims));
        assert.equal((await browser.ok('getSession')).user, null);
      }
      const log = fixture.test.log();
      assert.match(log, /the provider returned no ID token/);
      assert.match(log, /the ID token was issued to another client/);
      company.idTokenClaims = { aud: ['sluice', 'other'], azp: 'sluice' };
      assert.equal(await signIn(fixture.browser()), '/');
      company.idTokenClaims = {};
    });

    test('a callback is accepted once, and only from the browser that started the sign-in', async () => {
      const browser = fixture.browser();
      const { url } = await browser.ok('signInWithProvider', { body: { provider: 'company' } });
      const other = fixture.browser();
      assert.equal(await company.visit(other, url), '/sign-in?error=provider_failed');
      assert.equal((await other.ok('getSession')).user, null);
      for (const query of ['', '?code=x', '?state=x&code=x', '?error=%3Cscript%3E']) {
        const response = await browser.fetch('GET', `/api/auth/callback/company${query}`);
        assert.equal(response.status, 303);
        assert.equal(response.headers.get('location'), '/sign-in?error=provider_failed');
      }
      assert.equal((await browser.fetch('GET', '/api/auth/callback/other?code=x&state=y')).status, 303);
    });

    test('the return path must be a page of the service', async () => {
      for (const returnTo of [
        'https://evil.example',
        '//evil.example',
        '/\\evil.example',
        'evil',
        'javascript:alert(1)',
        '/\t/evil.example',
        '/.//evil.example',
        '/keys/..//evil.example',
      ]) {
        const body = { provider: 'company', return_to: returnTo };
        const response = await fixture.browser().call('signInWithProvider', { body });
        assert.deepEqual([response.code, response.param], ['invalid_value', 'return_to'], returnTo);
      }
    });

    test('the endpoints of better-auth are not reachable', async () => {
      for (const path of [
        'sign-in/email',
        'sign-up/email',
        'get-session',
        'list-sessions',
        'ok',
        'start-session',
      ]) {
        for (const method of ['GET', 'POST']) {
          const response = await fixture.browser().fetch(method, `/api/auth/${path}`, {});
          assert.equal(response.status, 404, path);
        }
      }
    });
  });
}

test('allowUnknownUsers gives each new user an account', async () => {
  await using company = await startOidcProvider();
  await using fixture = await startIdentityFixture(SQLITE, {
    yaml: company.yaml('  allowUnknownUsers: true\n'),
    env: company.env,
  });
  company.serve(`${fixture.test.url}/api/auth/callback/company`);
  company.user.name = 'Zo\u0000e';
  const browser = fixture.browser();
  assert.equal(await signInWith(company, browser), '/');
  const { user, accounts } = await browser.ok('getSession');
  assert.deepEqual([user?.name, user?.operator], ['Zoe', false]);
  assert.deepEqual(
    accounts.map(({ name, role, plan }) => [name, role, plan]),
    [['Zoe', 'owner', null]],
  );
});

test('a sign-in that fails while a new user is stored is logged and can be repeated, and gives the user their account', async (t) => {
  await using company = await startOidcProvider();
  await using fixture = await startIdentityFixture(SQLITE, {
    yaml: company.yaml('  allowUnknownUsers: true\n'),
    env: company.env,
  });
  company.serve(`${fixture.test.url}/api/auth/callback/company`);
  const { kysely } = fixture.database;
  const printed = (['debug', 'log', 'info', 'warn', 'error'] as const).map((name) =>
    t.mock.method(console, name),
  );
  for (const table of ['users', 'accounts', 'memberships', 'credentials', 'sessions']) {
    company.user = { sub: table, email: `${table}@example.com`, email_verified: true, name: table };
    await sql`create trigger fault before insert on ${sql.table(table)} begin select raise(abort, 'fault'); end`.execute(
      kysely,
    );
    const browser = fixture.browser();
    assert.equal(await signInWith(company, browser), '/sign-in?error=provider_failed', table);
    await sql`drop trigger fault`.execute(kysely);
    assert.equal(await signInWith(company, browser), '/', table);
    const { user, accounts } = await browser.ok('getSession');
    assert.deepEqual(
      [user?.providers, accounts.map(({ name, role }) => [name, role])],
      [['company'], [[table, 'owner']]],
      table,
    );
  }
  assert.deepEqual(
    printed.flatMap(({ mock }) => mock.calls.map((call) => call.arguments)),
    [],
  );
  assert.match(
    fixture.test.log(),
    /"error":"The database [^"]* failed: fault\."[^\n]*"message":"the callback of a sign-in provider failed"/,
  );
  const { length } = await kysely.selectFrom('accounts').select('id').where('id', '<>', 'default').execute();
  assert.equal(length, 5);
});

test('an invitation that is withdrawn during the sign-in does not create a user', async () => {
  await using company = await startOidcProvider();
  await using fixture = await startIdentityFixture(SQLITE, { yaml: company.yaml(), env: company.env });
  company.serve(`${fixture.test.url}/api/auth/callback/company`);
  const operator = await fixture.operator();
  const body = { account_id: 'default', email: company.user.email, role: 'member' };
  await operator.ok('createInvitation', { body });
  const { kysely } = fixture.database;
  await sql`create trigger withdrawal after insert on users begin delete from invitations; end`.execute(
    kysely,
  );
  assert.equal(await signInWith(company, fixture.browser()), '/sign-in?error=not_invited');
  const users = await kysely.selectFrom('users').select('email').execute();
  assert.deepEqual(
    users.map(({ email }) => email),
    [OPERATOR.email],
  );
});

test('a provider cannot create a user whose address or name is not valid', async () => {
  await using company = await startOidcProvider();
  await using fixture = await startIdentityFixture(SQLITE, {
    yaml: company.yaml('  allowUnknownUsers: true\n'),
    env: company.env,
  });
  company.serve(`${fixture.test.url}/api/auth/callback/company`);
  for (const email of [
    ' zoe@example.com',
    'zoe@exa\u001b[31mmple.com',
    'zoe',
    `${'z'.repeat(300)}@example.com`,
  ]) {
    company.user = { sub: email, email, email_verified: true, name: 'Zoe' };
    assert.equal(await signInWith(company, fixture.browser()), '/sign-in?error=provider_failed', email);
  }
  assert.deepEqual(await fixture.database.kysely.selectFrom('users').selectAll().execute(), []);
  // Cutting it after 100 code units would cut a character in half.
  company.user = {
    sub: 'zoe-1',
    email: 'zoe@example.com',
    email_verified: true,
    name: `z${'😀'.repeat(100)}`,
  };
  const browser = fixture.browser();
  assert.equal(await signInWith(company, browser), '/');
  const { user, accounts } = await browser.ok('getSession');
  assert.equal(user?.name, `z${'😀'.repeat(99)}`);
  assert.deepEqual(
    accounts.map(({ name }) => name),
    [user.name],
  );
});

test('a provider that does not respond to the callback does not keep the browser waiting', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const handling = Promise.withResolvers<void>();
  const handler = () => {
    handling.resolve();
    return new Promise<Response>(() => {});
  };
  const identity = {
    attempts: { count: async () => {} },
    settings: { providers: [{ id: 'company' }] },
    publicUrl: () => 'http://localhost',
    auth: async () => ({ handler }),
    log: SILENT,
  } as unknown as Identity;
  const finished = finishProviderSignIn(
    identity,
    { headers: {}, ip: '192.0.2.1' },
    { provider: 'company', query: new URLSearchParams() },
  );
  await handling.promise;
  t.mock.timers.tick(15_000);
  assert.deepEqual(await finished, { location: '/sign-in?error=provider_failed', cookies: [] });
});

test('an unreachable provider does not affect other ways to sign in', async () => {
  const provider = `{ id: gone, name: Gone, issuer: 'http://127.0.0.1:1', clientId: x, clientSecretEnv: GONE }`;
  await using fixture = await startIdentityFixture(SQLITE, {
    yaml: `signIn: { providers: [${provider}] }\n`,
    env: { GONE: 'x' },
  });
  await fixture.operator();
  await fixture.browser().ok('signIn', { body: { email: OPERATOR.email, password } });
  const response = await fixture.browser().call('signInWithProvider', { body: { provider: 'gone' } });
  assert.deepEqual([response.status, response.code], [503, 'provider_unavailable']);
});
