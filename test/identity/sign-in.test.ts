import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Identity } from '../../src/identity/identity.ts';
import { SCRYPT } from '../../src/identity/password.ts';
import { createSetupLink } from '../../src/identity/setup.ts';
import { SILENT } from '../../src/log.ts';
import { testDatabases } from '../servers.ts';
import { OPERATOR, startPlace, tokenOf } from './browser.ts';

const { email, password } = OPERATOR;

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    test('the set-up link makes the first operator, once', async () => {
      await using place = await startPlace(kind);
      const { database, test: service } = place;
      const browser = place.browser();
      assert.equal((await browser.ok('getSession')).setup_needed, true);
      const old = await createSetupLink(database, service.url);
      const link = await createSetupLink(database, service.url);
      assert.ok(old && link);
      assert.ok(link.startsWith(`${service.url}/setup#`));
      for (const token of ['', 'x', tokenOf(old)]) {
        const answer = await browser.call('setUp', { body: { token, ...OPERATOR } });
        assert.deepEqual([answer.status, answer.code, answer.param], [404, 'invalid_link', 'token']);
      }
      const body = { token: tokenOf(link), ...OPERATOR };
      assert.equal((await browser.call('setUp', { body: { ...body, name: '' } })).param, 'name');
      assert.equal((await browser.call('setUp', { body: { ...body, email: 'x' } })).param, 'email');
      assert.equal((await browser.call('setUp', { body: { ...body, password: 'short' } })).param, 'password');
      // Two at once: one of them is the operator.
      const both = await Promise.all([
        browser.call('setUp', { body }),
        place.browser().call('setUp', { body: { ...body, email: 'eve@example.com' } }),
      ]);
      assert.deepEqual(
        both.map(({ status }) => status).toSorted((a, b) => a - b),
        [200, 404],
      );
      const people = await database.kysely.selectFrom('people').select('operator').execute();
      assert.deepEqual(
        people.map(({ operator }) => operator),
        [1],
      );
      assert.equal((await place.browser().call('setUp', { body })).code, 'invalid_link');
      assert.equal(await createSetupLink(database, service.url), null);
    });

    test('the first operator owns the default account and may do all that an admin may', async () => {
      await using place = await startPlace(kind);
      const browser = await place.operator();
      const session = await browser.ok('getSession');
      assert.equal(session.setup_needed, false);
      assert.equal(session.person?.email, email);
      assert.equal(session.person.operator, true);
      assert.equal(session.person.has_password, true);
      assert.deepEqual(
        session.accounts.map(({ id, role }) => [id, role]),
        [['default', 'owner']],
      );
      assert.equal((await browser.ok('listPeople')).data.length, 1);
      assert.equal((await place.browser().call('listPeople')).status, 401);
    });

    test('a sign-in begins a session of its own, which signing out ends, and takes the place of the one before', async () => {
      await using place = await startPlace(kind);
      const first = await place.operator();
      const browser = place.browser();
      assert.deepEqual(await browser.ok('signIn', { body: { email: ' OLGA@example.com', password } }), {
        status: 'signed_in',
      });
      const before = new Map(browser.cookies);
      await browser.ok('signIn', { body: { email, password } });
      assert.notDeepEqual(before, browser.cookies);
      assert.equal((await browser.ok('getSession')).person?.name, OPERATOR.name);
      // Whoever has noted the old cookie has nothing.
      const thief = place.browser();
      for (const [name, value] of before) thief.cookies.set(name, value);
      assert.equal((await thief.ok('getSession')).person, null);
      const kept = new Map(browser.cookies);
      await browser.ok('signOut');
      assert.equal(browser.cookies.size, 0);
      for (const [name, value] of kept) thief.cookies.set(name, value);
      assert.equal((await thief.ok('getSession')).person, null);
      assert.notEqual((await first.ok('getSession')).person, null);
      assert.deepEqual((await place.audit()).filter((line) => line.startsWith('person.sign_in')).length, 2);
    });

    test('a wrong password and an address that nobody has are answered alike', async () => {
      await using place = await startPlace(kind);
      await place.operator();
      const browser = place.browser();
      const wrong = await browser.call('signIn', { body: { email, password: 'not this one' } });
      const unknown = await browser.call('signIn', { body: { email: 'eve@example.com', password } });
      const odd = await browser.call('signIn', { body: { email: 'no address', password } });
      assert.deepEqual([wrong.status, wrong.code], [403, 'wrong_credentials']);
      const told = ({ status, body, headers }: typeof wrong) => ({
        status,
        body,
        names: [...headers.keys()].toSorted(),
      });
      assert.deepEqual(told(unknown), told(wrong));
      assert.deepEqual(told(odd), told(wrong));
      assert.equal(browser.cookies.size, 0);
      const refused = (await place.audit()).filter((line) => line.startsWith('person.sign_in_refused'));
      assert.equal(refused.length, 3);
      assert.equal(refused.filter((line) => line.endsWith('person:unknown')).length, 2);
    });

    test('guessing ends for one who guesses, and not for the person', async () => {
      await using place = await startPlace(kind);
      await place.operator();
      const guesser = place.browser();
      const guess = { body: { email, password: 'not this one' } };
      const codes: (string | null)[] = [];
      for (let n = 0; n < 12; n++) codes.push((await guesser.call('signIn', guess)).code);
      assert.deepEqual(codes, [
        ...Array<string>(10).fill('wrong_credentials'),
        ...Array<string>(2).fill('too_many_attempts'),
      ]);
      // Now even the right one is not looked at, from there.
      const answer = await guesser.call('signIn', { body: { email, password } });
      assert.equal(answer.status, 429);
      assert.ok(Number(answer.headers.get('retry-after')) > 60);
      await place.browser().ok('signIn', { body: { email, password } });
    });

    test('neither a session, a token for a new password nor a password can be read from the database', async () => {
      await using place = await startPlace(kind, { passwords: SCRYPT });
      const browser = await place.operator();
      const [cookie = ''] = browser.cookies.values();
      const token = cookie.split('.')[0] ?? '';
      assert.equal(token.length, 32);
      const rows = await place.database.kysely.selectFrom('sessions').selectAll().execute();
      assert.equal(rows.length, 1);
      assert.equal(JSON.stringify(rows).includes(token), false);
      const credentials = await place.database.kysely.selectFrom('credentials').selectAll().execute();
      assert.equal(JSON.stringify(credentials).includes(password), false);
      assert.match(credentials[0]?.password_hash ?? '', /^[0-9a-f]{32}:[0-9a-f]{128}$/);
      await place.browser().ok('signIn', { body: { email, password } });
      const wrong = await place.browser().call('signIn', { body: { email, password: 'not this one' } });
      assert.equal(wrong.code, 'wrong_credentials');
      assert.equal(place.test.log().includes(token), false);
    });

    test('passwords are hashed with scrypt by default', async () => {
      await using database = await kind.open();
      const config = { signIn: { providers: [], letInUnknown: false }, smtp: undefined };
      const secrets = new Map<string, never>();
      await using identity = new Identity({ database, config, secrets, publicUrl: () => '', log: SILENT });
      assert.equal(identity.passwords, SCRYPT);
    });

    test('a session says whence it is, and ends by itself', async () => {
      await using place = await startPlace(kind);
      const browser = await place.operator();
      const { data } = await browser.ok('listSessions');
      assert.deepEqual(
        data.map(({ ip, user_agent, current }) => ({ ip, user_agent, current })),
        [{ ip: browser.ip, user_agent: 'Test/1.0', current: true }],
      );
      const { kysely } = place.database;
      const now = Date.now();
      await kysely
        .updateTable('sessions')
        .set({ last_active_at: now - 7 * 86_400_000 - 1 })
        .execute();
      assert.equal((await browser.ok('getSession')).person, null);
      await kysely
        .updateTable('sessions')
        .set({ last_active_at: now, expires_at: now - 1 })
        .execute();
      assert.equal((await browser.ok('getSession')).person, null);
      await kysely
        .updateTable('sessions')
        .set({ expires_at: now + 60_000 })
        .execute();
      assert.notEqual((await browser.ok('getSession')).person, null);
    });

    test('under https the cookie is bound to the host, and never to be read by a page', async () => {
      for (const [yaml, name, secure] of [
        ['', 'sluice.session_token', false],
        ['publicUrl: https://console.example.com\n', '__Host-sluice.session_token', true],
      ] as const) {
        await using place = await startPlace(kind, { yaml });
        const link = await createSetupLink(place.database, 'https://console.example.com');
        assert.ok(link);
        const browser = place.browser();
        const headers: Record<string, string> = secure ? { origin: 'https://console.example.com' } : {};
        const body = { token: tokenOf(link), ...OPERATOR };
        const { headers: told } = await browser.call('setUp', { body, headers });
        const [cookie = '', ...more] = told.getSetCookie();
        assert.deepEqual(more, []);
        const attributes = cookie.split('; ');
        assert.ok(attributes[0]?.startsWith(`${name}=`), cookie);
        for (const wanted of ['HttpOnly', 'SameSite=Lax', 'Path=/'])
          assert.ok(attributes.includes(wanted), cookie);
        assert.equal(attributes.includes('Secure'), secure);
        assert.equal(
          attributes.some((one) => one.startsWith('Domain')),
          false,
        );
        assert.equal((await browser.ok('getSession')).person?.email, email);
        const out = await browser.call('signOut', { headers });
        assert.ok(out.headers.getSetCookie().every((set) => set.includes('Max-Age=0')));
        assert.equal(browser.cookies.size, 0);
      }
    });

    test('a stolen cookie with another signature or name opens nothing', async () => {
      await using place = await startPlace(kind);
      const browser = await place.operator();
      const [[name = '', value = ''] = []] = browser.cookies;
      for (const [otherName, other] of [
        [name, value.slice(1)],
        [name, ''],
        [name, `${'A'.repeat(32)}.x`],
        [`x${name}`, value],
      ] as const) {
        const thief = place.browser();
        thief.cookies.set(otherName, other);
        assert.equal((await thief.ok('getSession')).person, null, `${otherName}=${other}`);
      }
    });
  });
}
