import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Database } from '../../src/database/database.ts';
import { SecretKeys } from '../../src/database/secret-keys.ts';
import { Identity } from '../../src/identity/identity.ts';
import { SCRYPT } from '../../src/identity/password.ts';
import { createSetupLink } from '../../src/identity/setup.ts';
import { SILENT } from '../../src/support/log.ts';
import { testDatabases } from '../support/servers.ts';
import {
  appCode,
  OPERATOR,
  startIdentityFixture,
  tokenOf,
  type Browser,
  type IdentityFixture,
} from './fixture.ts';

const { email, password } = OPERATOR;

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    /** Shared by tests whose results do not depend on earlier sign-ins. */
    let shared: IdentityFixture;
    let operator: Browser;

    before(async () => {
      shared = await startIdentityFixture(kind);
      operator = await shared.operator();
    });

    after(() => shared[Symbol.asyncDispose]());

    test('the setup link creates the first operator, once', async () => {
      await using fixture = await startIdentityFixture(kind);
      const { database, test: service } = fixture;
      const browser = fixture.browser();
      assert.equal((await browser.ok('getSession')).setup_needed, true);
      const old = await createSetupLink(database, service.url);
      const link = await createSetupLink(database, service.url);
      assert.ok(old && link);
      assert.ok(link.startsWith(`${service.url}/setup#`));
      for (const token of ['', 'x', tokenOf(old)]) {
        const response = await browser.call('setUp', { body: { token, ...OPERATOR } });
        assert.deepEqual([response.status, response.code, response.param], [404, 'invalid_link', 'token']);
      }
      const body = { token: tokenOf(link), ...OPERATOR };
      assert.equal((await browser.call('setUp', { body: { ...body, name: '' } })).param, 'name');
      assert.equal((await browser.call('setUp', { body: { ...body, email: 'x' } })).param, 'email');
      assert.equal((await browser.call('setUp', { body: { ...body, password: 'short' } })).param, 'password');
      // Two concurrent requests: one succeeds.
      const both = await Promise.all([
        browser.call('setUp', { body }),
        fixture.browser().call('setUp', { body: { ...body, email: 'eve@example.com' } }),
      ]);
      assert.deepEqual(
        both.map(({ status }) => status).toSorted((a, b) => a - b),
        [200, 404],
      );
      const users = await database.kysely.selectFrom('users').select('operator').execute();
      assert.deepEqual(
        users.map(({ operator }) => operator),
        [1],
      );
      assert.equal((await fixture.browser().call('setUp', { body })).code, 'invalid_link');
      assert.equal(await createSetupLink(database, service.url), null);
    });

    test('the setup link replaces whoever accepted an invitation to the address', async () => {
      await using fixture = await startIdentityFixture(kind);
      const squatter = await fixture.operator();
      const { uri } = await squatter.ok('beginTwoFactor', { body: { password } });
      await squatter.ok('confirmTwoFactor', { body: { code: appCode(uri) } });
      await fixture.database.kysely.updateTable('users').set({ operator: 0, email_verified: 0 }).execute();
      const link = await createSetupLink(fixture.database, fixture.test.url);
      assert.ok(link);
      const browser = fixture.browser();
      await browser.ok('setUp', {
        body: { token: tokenOf(link), name: 'Olga', email, password: 'another password' },
      });
      const { user } = await browser.ok('getSession');
      assert.deepEqual([user?.email_verified, user?.operator, user?.two_factor], [true, true, false]);
      assert.equal((await squatter.ok('getSession')).user, null);
    });

    test('the first operator owns the default account and can use the whole management API', async () => {
      const session = await operator.ok('getSession');
      assert.equal(session.setup_needed, false);
      assert.equal(session.user?.email, email);
      assert.equal(session.user.operator, true);
      assert.equal(session.user.has_password, true);
      assert.deepEqual(
        session.accounts.map(({ id, role }) => [id, role]),
        [['default', 'owner']],
      );
      assert.equal((await operator.ok('listUsers')).data.length, 1);
      assert.equal((await shared.browser().call('listUsers')).status, 401);
    });

    test('a sign-in creates a session that replaces the previous one, and signing out ends it', async () => {
      const earlier = (await shared.audit()).length;
      const browser = shared.browser();
      assert.deepEqual(await browser.ok('signIn', { body: { email: ' OLGA@example.com', password } }), {
        status: 'signed_in',
      });
      const before = new Map(browser.cookies);
      await browser.ok('signIn', { body: { email, password } });
      assert.notDeepEqual(before, browser.cookies);
      assert.equal((await browser.ok('getSession')).user?.name, OPERATOR.name);
      // The old cookie no longer works.
      const thief = shared.browser();
      for (const [name, value] of before) thief.cookies.set(name, value);
      assert.equal((await thief.ok('getSession')).user, null);
      const ended = new Map(browser.cookies);
      await browser.ok('signOut');
      assert.equal(browser.cookies.size, 0);
      for (const [name, value] of ended) thief.cookies.set(name, value);
      assert.equal((await thief.ok('getSession')).user, null);
      assert.notEqual((await operator.ok('getSession')).user, null);
      const added = (await shared.audit()).slice(earlier);
      assert.deepEqual(added.filter((line) => line.startsWith('user.sign_in')).length, 2);
    });

    test('a wrong password and an unknown address get the same response', async () => {
      const earlier = await shared.audit();
      const browser = shared.browser();
      const wrong = await browser.call('signIn', { body: { email, password: 'not this one' } });
      const unknown = await browser.call('signIn', { body: { email: 'eve@example.com', password } });
      const odd = await browser.call('signIn', { body: { email: 'no address', password } });
      assert.deepEqual([wrong.status, wrong.code], [403, 'wrong_credentials']);
      const visible = ({ status, body, headers }: typeof wrong) => ({
        status,
        body,
        names: [...headers.keys()].toSorted(),
      });
      assert.deepEqual(visible(unknown), visible(wrong));
      assert.deepEqual(visible(odd), visible(wrong));
      assert.equal(browser.cookies.size, 0);
      // Anyone could fill the audit log with wrong passwords, so they are only counted.
      assert.deepEqual(await shared.audit(), earlier);
      const { data } = await operator.ok('listRefusals');
      assert.deepEqual(
        data
          .filter(({ code }) => code === 'wrong_credentials')
          .map(({ param, count, account_id }) => [param, count, account_id]),
        [['password', 3, null]],
      );
    });

    test('password guessing locks out the IP address of the attacker, not the user', async () => {
      await using fixture = await startIdentityFixture(kind);
      await fixture.operator();
      const guesser = fixture.browser();
      const guess = { body: { email, password: 'not this one' } };
      const codes: (string | null)[] = [];
      for (let n = 0; n < 12; n++) codes.push((await guesser.call('signIn', guess)).code);
      assert.deepEqual(codes, [
        ...Array<string>(10).fill('wrong_credentials'),
        ...Array<string>(2).fill('too_many_attempts'),
      ]);
      // The correct password is now refused too, from this address.
      const response = await guesser.call('signIn', { body: { email, password } });
      assert.equal(response.status, 429);
      assert.ok(Number(response.headers.get('retry-after')) > 60);
      await fixture.browser().ok('signIn', { body: { email, password } });
    });

    test('neither sessions nor passwords can be read from the database', async () => {
      await using fixture = await startIdentityFixture(kind, { passwords: SCRYPT });
      const browser = await fixture.operator();
      const [cookie = ''] = browser.cookies.values();
      const token = cookie.split('.')[0] ?? '';
      assert.equal(token.length, 32);
      const rows = await fixture.database.kysely.selectFrom('sessions').selectAll().execute();
      assert.equal(rows.length, 1);
      assert.equal(JSON.stringify(rows).includes(token), false);
      const credentials = await fixture.database.kysely.selectFrom('credentials').selectAll().execute();
      assert.equal(JSON.stringify(credentials).includes(password), false);
      assert.match(credentials[0]?.password_hash ?? '', /^[0-9a-f]{32}:[0-9a-f]{128}$/);
      await fixture.browser().ok('signIn', { body: { email, password } });
      const wrong = await fixture.browser().call('signIn', { body: { email, password: 'not this one' } });
      assert.equal(wrong.code, 'wrong_credentials');
      assert.equal(fixture.test.log().includes(token), false);
    });

    const identityOf = (database: Database) =>
      new Identity({
        database,
        config: { signIn: { providers: [], allowUnknownUsers: false }, smtp: undefined },
        secrets: new Map(),
        secretKeys: new SecretKeys({ home: 'unused', text: null }),
        publicUrl: () => 'http://localhost',
        log: SILENT,
      });

    test('passwords are hashed with scrypt by default', async () => {
      await using database = await kind.open();
      await using identity = identityOf(database);
      assert.equal(identity.passwords, SCRYPT);
    });

    test('a user who is deleted before the session starts is not signed in', async () => {
      await using database = await kind.open();
      await using identity = identityOf(database);
      const starting = identity.startSession({ headers: {}, ip: '192.0.2.1' }, 'user_deleted');
      await assert.rejects(starting, { name: 'ServiceError', code: 'sign_in_required' });
    });

    test('a session shows where it was created, and expires', async () => {
      await using fixture = await startIdentityFixture(kind);
      const browser = await fixture.operator();
      const { data } = await browser.ok('listSessions');
      assert.deepEqual(
        data.map(({ ip, user_agent, current }) => ({ ip, user_agent, current })),
        [{ ip: browser.ip, user_agent: 'Test/1.0', current: true }],
      );
      const { kysely } = fixture.database;
      const now = Date.now();
      await kysely
        .updateTable('sessions')
        .set({ last_active_at: now - 7 * 86_400_000 - 1 })
        .execute();
      assert.equal((await browser.ok('getSession')).user, null);
      await kysely
        .updateTable('sessions')
        .set({ last_active_at: now, expires_at: now - 1 })
        .execute();
      assert.equal((await browser.ok('getSession')).user, null);
      await kysely
        .updateTable('sessions')
        .set({ expires_at: now + 60_000 })
        .execute();
      assert.notEqual((await browser.ok('getSession')).user, null);
    });

    test('the cookie is HttpOnly, and bound to the host with https', async () => {
      for (const [yaml, name, secure] of [
        ['', 'sluice.session_token', false],
        ['publicUrl: https://console.example.com\n', '__Host-sluice.session_token', true],
      ] as const) {
        await using fixture = await startIdentityFixture(kind, { yaml });
        const link = await createSetupLink(fixture.database, 'https://console.example.com');
        assert.ok(link);
        const browser = fixture.browser();
        const headers: Record<string, string> = secure ? { origin: 'https://console.example.com' } : {};
        const body = { token: tokenOf(link), ...OPERATOR };
        const { headers: received } = await browser.call('setUp', { body, headers });
        const [cookie = '', ...more] = received.getSetCookie();
        assert.deepEqual(more, []);
        const attributes = cookie.split('; ');
        assert.ok(attributes[0]?.startsWith(`${name}=`), cookie);
        for (const attribute of ['HttpOnly', 'SameSite=Lax', 'Path=/'])
          assert.ok(attributes.includes(attribute), cookie);
        assert.equal(attributes.includes('Secure'), secure);
        assert.equal(
          attributes.some((one) => one.startsWith('Domain')),
          false,
        );
        assert.equal((await browser.ok('getSession')).user?.email, email);
        const out = await browser.call('signOut', { headers });
        assert.ok(out.headers.getSetCookie().every((set) => set.includes('Max-Age=0')));
        assert.equal(browser.cookies.size, 0);
      }
    });

    test('a cookie with another token or name does not work', async () => {
      const [[name = '', value = ''] = []] = operator.cookies;
      for (const [otherName, other] of [
        [name, value.slice(1)],
        [name, ''],
        [name, `${'A'.repeat(32)}.x`],
        [`x${name}`, value],
      ] as const) {
        const thief = shared.browser();
        thief.cookies.set(otherName, other);
        assert.equal((await thief.ok('getSession')).user, null, `${otherName}=${other}`);
      }
    });
  });
}
