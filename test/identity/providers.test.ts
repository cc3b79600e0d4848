import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { testDatabases } from '../servers.ts';
import { appCode, OPERATOR, startPlace, type Browser, type Place } from './browser.ts';
import { startOidcProvider, type OidcServer } from './oidc-provider.ts';

const { password } = OPERATOR;

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let company: OidcServer;
    let place: Place;
    let operator: Browser;
    before(async () => {
      company = await startOidcProvider();
      place = await startPlace(kind, { yaml: company.yaml(), env: company.env });
      company.serve(`${place.test.url}/api/auth/callback/company`);
      operator = await place.operator();
    });
    after(async () => {
      await place[Symbol.asyncDispose]();
      await company[Symbol.asyncDispose]();
    });

    /** Signs in with the provider: where the browser is sent in the end. */
    async function signIn(browser: Browser, returnTo?: string): Promise<string> {
      const body = { provider: 'company', ...(returnTo !== undefined && { return_to: returnTo }) };
      const { url } = await browser.ok('signInWithProvider', { body });
      assert.ok(url.startsWith(company.issuer));
      return await company.visit(browser, url);
    }

    test('the sign-in page knows the providers', async () => {
      const { sign_in } = await place.browser().ok('getSession');
      assert.deepEqual(sign_in.providers, [{ id: 'company', name: 'Company' }]);
      const answer = await place.browser().call('signInWithProvider', { body: { provider: 'other' } });
      assert.deepEqual([answer.code, answer.param], ['not_found', 'provider']);
    });

    test('who is neither known nor invited is not let in, and nothing is kept of them', async () => {
      const browser = place.browser();
      assert.equal(await signIn(browser), '/sign-in?error=not_invited');
      assert.equal((await browser.ok('getSession')).person, null);
      const people = await place.database.kysely.selectFrom('people').select('email').execute();
      assert.deepEqual(
        people.map((one) => one.email),
        [OPERATOR.email],
      );
    });

    test('who is invited is let in by an address that the provider vouches for, and by no other', async () => {
      const body = { account_id: 'default', email: 'zoe@example.com', role: 'member' };
      await operator.ok('createInvitation', { body });
      company.person.email_verified = false;
      assert.equal(await signIn(place.browser()), '/sign-in?error=email_not_verified');
      company.person.email_verified = true;
      const browser = place.browser();
      assert.equal(await signIn(browser, '/usage?range=7d'), '/usage?range=7d');
      const session = await browser.ok('getSession');
      assert.equal(session.person?.email, 'zoe@example.com');
      assert.equal(session.person.has_password, false);
      assert.deepEqual(session.person.providers, ['company']);
      assert.deepEqual(
        session.accounts.map(({ id, role }) => [id, role]),
        [['default', 'member']],
      );
      assert.deepEqual((await operator.ok('listInvitations')).data, []);
      const actions = (await place.audit()).map((line) => line.split(' ')[0]);
      for (const action of ['person.create', 'person.add_provider', 'invitation.accept', 'person.sign_in']) {
        assert.ok(actions.includes(action), action);
      }
    });

    test('they are known by more than their address from then on', async () => {
      company.person.email = 'zoe@elsewhere.example.com';
      const browser = place.browser();
      assert.equal(await signIn(browser), '/');
      assert.equal((await browser.ok('getSession')).person?.email, 'zoe@example.com');
      company.person.email = 'zoe@example.com';
    });

    test('tokens of the provider are kept nowhere', async () => {
      const rows = await place.database.kysely.selectFrom('credentials').selectAll().execute();
      assert.equal(rows.filter(({ provider }) => provider === 'company').length, 1);
      assert.doesNotMatch(JSON.stringify(rows), /eyJ/);
    });

    test('an enrolled person gives the second factor all the same', async () => {
      const browser = place.browser();
      await signIn(browser);
      // Without a password, a sign-in that has just been made stands in for it.
      const { uri } = await browser.ok('beginTwoFactor', { body: {} });
      await browser.ok('confirmTwoFactor', { body: { code: appCode(uri) } });
      const half = place.browser();
      assert.equal(await signIn(half, '/keys'), '/sign-in?to=%2Fkeys');
      const session = await half.ok('getSession');
      assert.equal(session.person, null);
      assert.equal(session.sign_in.second_factor_due, true);
      assert.equal((await half.call('listSessions')).code, 'sign_in_required');
      await half.ok('signInSecondFactor', { body: { code: appCode(uri, 1), kind: 'totp' } });
      assert.equal((await half.ok('getSession')).person?.email, 'zoe@example.com');
      await half.ok('endTwoFactor', { body: {} });
    });

    test('a sign-in that is not fresh stands in for no password', async () => {
      const browser = place.browser();
      await signIn(browser);
      await place.database.kysely
        .updateTable('sessions')
        .set({ created_at: Date.now() - 11 * 60_000 } as never) // Never changed but here.
        .execute();
      assert.equal((await browser.call('beginTwoFactor', { body: {} })).code, 'fresh_sign_in_required');
      assert.equal((await browser.call('deleteMe', { body: {} })).code, 'fresh_sign_in_required');
    });

    test('somebody who has shown that the address is theirs can come from the provider as well', async () => {
      Object.assign(company.person, { sub: 'olga-1', email: OPERATOR.email, name: 'Olga' });
      const browser = place.browser();
      assert.equal(await signIn(browser), '/');
      const { person } = await browser.ok('getSession');
      assert.deepEqual([person?.operator, person?.providers], [true, ['company']]);
    });

    test('an address that nobody has shown to be theirs is not joined with one of the provider', async () => {
      // An owner who is no operator invites, keeps the link, and waits for whoever comes from the provider.
      const { id } =
        (await operator.ok('listPeople')).data.find(({ email }) => email === 'zoe@example.com') ?? {};
      assert.ok(id);
      await operator.ok('setMember', { params: { id: 'default', person_id: id }, body: { role: 'owner' } });
      Object.assign(company.person, { sub: 'zoe-1', email: 'zoe@example.com', name: 'Zoe' });
      const owner = place.browser();
      await signIn(owner);
      const body = { account_id: 'default', email: 'victim@example.com', role: 'member' };
      const { link } = await owner.ok('createInvitation', { body });
      const token = new URL(link).hash.slice(1);
      await place.browser().ok('acceptInvitation', { body: { token, name: 'Mine', password } });
      Object.assign(company.person, { sub: 'victim-1', email: 'victim@example.com', name: 'Victim' });
      const victim = place.browser();
      assert.equal(await signIn(victim), '/sign-in?error=not_linked');
      assert.equal((await victim.ok('getSession')).person, null);
    });

    test('who says no at the provider is told so', async () => {
      company.refuses = true;
      assert.equal(await signIn(place.browser()), '/sign-in?error=cancelled');
      company.refuses = false;
    });

    test('what comes back is believed only in the browser that was sent, and once', async () => {
      const browser = place.browser();
      const { url } = await browser.ok('signInWithProvider', { body: { provider: 'company' } });
      const other = place.browser();
      assert.equal(await company.visit(other, url), '/sign-in?error=provider_failed');
      assert.equal((await other.ok('getSession')).person, null);
      for (const query of ['', '?code=x', '?state=x&code=x', '?error=%3Cscript%3E']) {
        const answer = await browser.fetch('GET', `/api/auth/callback/company${query}`);
        assert.equal(answer.status, 303);
        assert.equal(answer.headers.get('location'), '/sign-in?error=provider_failed');
      }
      assert.equal((await browser.fetch('GET', '/api/auth/callback/other?code=x&state=y')).status, 303);
    });

    test('one comes back to a page of the service and to nothing else', async () => {
      for (const returnTo of [
        'https://evil.example',
        '//evil.example',
        '/\\evil.example',
        'evil',
        'javascript:alert(1)',
        '/\t/evil.example',
      ]) {
        const body = { provider: 'company', return_to: returnTo };
        const answer = await place.browser().call('signInWithProvider', { body });
        assert.deepEqual([answer.code, answer.param], ['invalid_value', 'return_to'], returnTo);
      }
    });

    test('nothing else of the library can be called', async () => {
      for (const path of [
        'sign-in/email',
        'sign-up/email',
        'get-session',
        'list-sessions',
        'ok',
        'start-session',
      ]) {
        for (const method of ['GET', 'POST']) {
          const answer = await place.browser().fetch(method, `/api/auth/${path}`, {});
          assert.equal(answer.status, 404, path);
        }
      }
    });
  });
}

test('where the unknown are let in, each gets an account of their own', async () => {
  const [sqlite] = testDatabases();
  assert.ok(sqlite);
  await using company = await startOidcProvider();
  await using place = await startPlace(sqlite, {
    yaml: company.yaml('  letInUnknown: true\n'),
    env: company.env,
  });
  company.serve(`${place.test.url}/api/auth/callback/company`);
  company.person.name = 'Zo\u0000e';
  const browser = place.browser();
  const { url } = await browser.ok('signInWithProvider', { body: { provider: 'company' } });
  assert.equal(await company.visit(browser, url), '/');
  const { person, accounts } = await browser.ok('getSession');
  assert.deepEqual([person?.name, person?.operator], ['Zoe', false]);
  assert.deepEqual(
    accounts.map(({ name, role, plan }) => [name, role, plan]),
    [['Zoe', 'owner', null]],
  );
});

test('a provider that is away keeps nobody from signing in another way', async () => {
  const [sqlite] = testDatabases();
  assert.ok(sqlite);
  const provider = `{ id: gone, name: Gone, issuer: 'http://127.0.0.1:1', clientId: x, clientSecretEnv: GONE }`;
  await using place = await startPlace(sqlite, {
    yaml: `signIn: { providers: [${provider}] }\n`,
    env: { GONE: 'x' },
  });
  await place.operator();
  await place.browser().ok('signIn', { body: { email: OPERATOR.email, password } });
  const answer = await place.browser().call('signInWithProvider', { body: { provider: 'gone' } });
  assert.deepEqual([answer.status, answer.code], [503, 'provider_unavailable']);
});
