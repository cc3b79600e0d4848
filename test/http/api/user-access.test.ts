import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { appendAudit } from '../../../src/accounts/audit.ts';
import { MODEL } from '../../harness.ts';
import { testDatabases } from '../../support/servers.ts';
import { Wire } from '../wire.ts';
import {
  startIdentityFixture,
  tokenOf,
  type BrowserResponse,
  type Browser,
  type IdentityFixture,
} from '../../identity/fixture.ts';

const PASSWORD = 'correct horse battery';

/** Asserts that a response is this error. */
function assertRefused(response: BrowserResponse, code: string, param: string | null = null): void {
  assert.deepEqual([response.code, response.param], [code, param], JSON.stringify(response.body));
}

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let fixture: IdentityFixture;
    let operator: Browser;
    let owner: Browser;
    let accountId: string;
    before(async () => {
      fixture = await startIdentityFixture(kind);
      operator = await fixture.operator();
      ({ id: accountId } = await operator.ok('createAccount', { body: { name: 'acme' } }));
      const body = { account_id: accountId, email: 'owner@example.com', role: 'owner' };
      const { link } = await operator.ok('createInvitation', { body });
      owner = fixture.browser();
      await owner.ok('acceptInvitation', {
        body: { token: tokenOf(link), name: 'Owen', password: PASSWORD },
      });
    });
    after(() => fixture[Symbol.asyncDispose]());

    test('a request is authorized again when its body has arrived', async () => {
      const base = fixture.test.service.localUrl;
      const planted = { path: '/api/keys', body: JSON.stringify({ name: 'planted', account_id: accountId }) };
      /** Returns the status of a request whose access is withdrawn before its body is sent. */
      const sendLate = async (
        headers: Record<string, string>,
        withdraw: () => Promise<unknown>,
        { path, body } = planted,
      ) => {
        using wire = await Wire.open(base);
        const lines = Object.entries({
          host: new URL(base).host,
          origin: base,
          'content-length': String(body.length),
          expect: '100-continue',
          ...headers,
        }).map(([name, value]) => `${name}: ${value}\r\n`);
        wire.send(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n`);
        assert.equal((await wire.head()).status, 100);
        await withdraw();
        return (await wire.send(body).response()).status;
      };
      const caller = await operator.ok('createKey', { body: { name: 'caller', account_id: accountId } });
      const chat = {
        path: '/v1/chat/completions',
        body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1 }),
      };
      for (const [status, withdraw] of [
        [
          403,
          () =>
            operator.ok('changeKey', { params: { id: caller.id }, body: { allowed_models: ['no/model'] } }),
        ],
        [401, () => operator.ok('revokeKey', { params: { id: caller.id } })],
      ] as const) {
        assert.equal(await sendLate({ authorization: `Bearer ${caller.key}` }, withdraw, chat), status);
      }
      const admin = await operator.ok('createKey', {
        body: { name: 'admin', kind: 'admin', account_id: accountId },
      });
      const authorization = `Bearer ${admin.key}`;
      const params = { id: admin.id };
      assert.equal(await sendLate({ authorization }, () => operator.ok('revokeKey', { params })), 401);
      const { link } = await operator.ok('createInvitation', {
        body: { account_id: accountId, email: 'leaver@example.com', role: 'owner' },
      });
      const leaver = fixture.browser();
      await leaver.ok('acceptInvitation', {
        body: { token: tokenOf(link), name: 'Lea', password: PASSWORD },
      });
      const cookie = [...leaver.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const { user } = await leaver.ok('getSession');
      assert.ok(user);
      const membership = { params: { id: accountId, user_id: user.id } };
      assert.equal(await sendLate({ cookie }, () => operator.ok('removeMember', membership)), 404);
      const { data } = await operator.ok('listKeys', { query: { account_id: accountId } });
      assert.ok(data.every(({ name }) => name !== 'planted'));
    });

    test('resources of other accounts get the same response as resources that do not exist', async () => {
      const { id: otherAccount } = await operator.ok('createAccount', { body: { name: 'other' } });
      const { id: otherKey } = await operator.ok('createKey', {
        body: { name: 'other', account_id: otherAccount },
      });
      const body = { name: 'mine' };
      const pairs = [
        ['getKey', { params: { id: otherKey } }, { params: { id: 'key_000000000000000000000000' } }],
        ['changeKey', { params: { id: otherKey }, body }, { params: { id: 'key_0' }, body }],
        ['revokeKey', { params: { id: otherKey } }, { params: { id: 'key_0' } }],
        ['getAccount', { params: { id: otherAccount } }, { params: { id: 'acct_0' } }],
        ['changeAccount', { params: { id: otherAccount }, body }, { params: { id: 'acct_0' }, body }],
        ['listMembers', { params: { id: otherAccount } }, { params: { id: 'acct_0' } }],
        ['listKeys', { query: { account_id: otherAccount } }, { query: { account_id: 'acct_0' } }],
        ['readUsage', { query: { account_id: otherAccount } }, { query: { account_id: 'acct_0' } }],
        ['readLimits', { query: { account_id: otherAccount } }, { query: { account_id: 'acct_0' } }],
        [
          'createKey',
          { body: { ...body, account_id: otherAccount } },
          { body: { ...body, account_id: 'acct_0' } },
        ],
      ] as const;
      for (const [id, others, missing] of pairs) {
        const [hidden, unknown] = [await owner.call(id, others), await owner.call(id, missing)];
        assert.equal(hidden.status, 404, id);
        assert.deepEqual(hidden.body, unknown.body, id);
      }
      assert.equal((await operator.ok('getKey', { params: { id: otherKey } })).name, 'other');
    });

    test('filtering by a key of another account returns nothing', async () => {
      const { id: key_id } = await operator.ok('createKey', { body: { name: 'other' } });
      const query = { account_id: accountId, key_id };
      assert.deepEqual((await owner.ok('listRequests', { query })).data, []);
      assert.equal((await owner.ok('readUsage', { query })).data[0]?.requests, 0);
      assertRefused(await owner.call('readLimits', { query }), 'not_found', 'id');
    });

    test('only operators can omit the account', async () => {
      for (const id of ['listKeys', 'readUsage', 'listRequests', 'listInvitations'] as const) {
        assertRefused(await owner.call(id), 'missing_required_parameter', 'account_id');
        await operator.ok(id);
      }
      const body = { name: 'a' };
      assertRefused(await owner.call('createKey', { body }), 'missing_required_parameter', 'account_id');
      assert.equal((await operator.ok('createKey', { body })).account_id, 'default');
      const query = { client_request_id: 'a' };
      assertRefused(await owner.call('listReceipts', { query }), 'missing_required_parameter', 'account_id');
      assertRefused(
        await operator.call('listReceipts', { query }),
        'missing_required_parameter',
        'account_id',
      );
    });

    test('only operators can change plans, statuses and admin keys', async () => {
      const params = { id: accountId };
      for (const body of [{ plan: null }, { status: 'closed' }, { name: 'x', status: 'active' }]) {
        assertRefused(await owner.call('changeAccount', { params, body }), 'admin_required');
      }
      assert.equal((await owner.ok('changeAccount', { params, body: { name: 'Acme' } })).name, 'Acme');
      const body = { account_id: accountId, name: 'ops', kind: 'admin' };
      assertRefused(await owner.call('createKey', { body }), 'admin_required');
      const { id } = await operator.ok('createKey', { body });
      assertRefused(await owner.call('changeKey', { params: { id }, body: { name: 'x' } }), 'admin_required');
      assertRefused(await owner.call('revokeKey', { params: { id } }), 'admin_required');
      const several = {
        account_id: accountId,
        ids: [(await owner.ok('createKey', { body: { account_id: accountId, name: 'y' } })).id, id],
      };
      assertRefused(await owner.call('revokeKeys', { body: several }), 'admin_required');
      const { id: elsewhere } = await operator.ok('createKey', { body: { name: 'z' } });
      assertRefused(
        await owner.call('revokeKeys', { body: { account_id: accountId, ids: [elsewhere] } }),
        'not_found',
        'ids[0]',
      );
      const [first = ''] = several.ids;
      for (const key of [id, elsewhere, first])
        assert.equal((await operator.ok('getKey', { params: { id: key } })).status, 'live');
      const { data } = await owner.ok('revokeKeys', { body: { account_id: accountId, ids: [first] } });
      assert.deepEqual(
        data.map(({ status }) => status),
        ['revoked'],
      );
      assert.equal((await operator.ok('getKey', { params: { id } })).status, 'live');
    });

    test('an owner can change the roles of members, and add members only by invitation', async () => {
      const { id } = await operator.ok('createUser', { body: { name: 'x', email: 'x@example.com' } });
      const membership = { params: { id: accountId, user_id: id }, body: { role: 'member' } };
      assertRefused(await owner.call('setMember', membership), 'not_found', 'user_id');
      await operator.ok('setMember', membership);
      assert.equal((await owner.ok('setMember', { ...membership, body: { role: 'owner' } })).role, 'owner');
      await owner.ok('removeMember', membership);
    });

    test('a playground key cannot be made permanent, and ends when its member is removed', async () => {
      const body = { account_id: accountId, email: 'member@example.com', role: 'member' };
      const { link } = await operator.ok('createInvitation', { body });
      const member = fixture.browser();
      await member.ok('acceptInvitation', {
        body: { token: tokenOf(link), name: 'Mia', password: PASSWORD },
      });
      const { id, key } = await member.ok('createPlaygroundKey', { body: { account_id: accountId } });
      const permanent = await member.call('changeKey', { params: { id }, body: { expires_at: null } });
      assertRefused(permanent, 'invalid_value', 'expires_at');
      const use = () =>
        fetch(`${fixture.test.url}/v1/chat/completions`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}` },
          body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'hi' }] }),
        });
      assert.equal((await use()).status, 200);
      const user = (await member.ok('getSession')).user?.id ?? '';
      await owner.ok('removeMember', { params: { id: accountId, user_id: user } });
      assert.equal((await use()).status, 401);
    });

    test('a playground key ends with its session, however that ends, and with no other session', async () => {
      const use = (key: string) =>
        fetch(`${fixture.test.url}/v1/chat/completions`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}` },
          body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'hi' }] }),
        });
      const signedIn = async () => {
        const browser = fixture.browser();
        await browser.ok('signIn', { body: { email: 'owner@example.com', password: PASSWORD } });
        const { key } = await browser.ok('createPlaygroundKey', { body: { account_id: accountId } });
        return { browser, key };
      };
      const [first, second, third] = [await signedIn(), await signedIn(), await signedIn()];
      await first.browser.ok('signOut');
      assert.deepEqual([(await use(first.key)).status, (await use(second.key)).status], [401, 200]);
      await third.browser.ok('endOtherSessions');
      assert.deepEqual([(await use(second.key)).status, (await use(third.key)).status], [401, 200]);
      owner = third.browser;
    });

    test('a playground key is not valid after its session', async () => {
      const expires = Date.now() + 60_000;
      const { id } = (await owner.ok('listSessions')).data.find(({ current }) => current) ?? {};
      assert.ok(id);
      await fixture.database.kysely
        .updateTable('sessions')
        .set({ expires_at: expires })
        .where('id', '=', id)
        .execute();
      const key = await owner.ok('createPlaygroundKey', { body: { account_id: accountId } });
      assert.equal(Date.parse(key.expires_at), expires);
    });

    test('the audit log contains the user and the IP address', async () => {
      const { id } = await owner.ok('createKey', { body: { name: 'a', account_id: accountId } });
      const { data } = await operator.ok('listAudit', { query: { subject: `key:${id}` } });
      const me = (await owner.ok('getSession')).user?.id;
      assert.deepEqual([data[0]?.actor, data[0]?.ip], [`user:${me}`, owner.ip]);
    });

    /** Creates a key as the signed-in owner, with exactly these headers, and returns the error code. */
    const createKey = async (headers: Record<string, string>): Promise<string | null> => {
      const cookie = [...owner.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const { host, hostname, port } = new URL(fixture.test.url);
      const all = { host, cookie, ...headers };
      return await new Promise((resolve, reject) => {
        const options = { hostname, port, method: 'POST', path: '/api/keys', headers: all };
        const sent = request(options, (response) => {
          let text = '';
          response.setEncoding('utf8').on('data', (part: string) => (text += part));
          response.on('end', () => {
            const { error } = JSON.parse(text) as { error?: { code: string } };
            assert.equal(response.headers['access-control-allow-origin'], undefined);
            resolve(error?.code ?? null);
          });
        });
        sent.on('error', reject);
        sent.end(JSON.stringify({ name: 'a', account_id: accountId }));
      });
    };

    test('a change with a session must come from a page of the console', async () => {
      const { origin, port } = new URL(fixture.test.url);
      const key = await operator.ok('createKey', { body: { name: 'a', kind: 'admin' } });
      assert.equal(await createKey({ origin }), null);
      assert.equal(await createKey({ origin, 'sec-fetch-site': 'same-origin' }), null);
      const foreign: Record<string, string>[] = [
        {},
        { origin: 'null' },
        { origin: '' },
        { origin: 'https://evil.example' },
        { origin: `https://127.0.0.1:${port}` },
        { origin: `http://localhost:${port}` },
        { origin: 'http://127.0.0.1' },
        { origin: 'http://127.0.0.1:1' },
        { origin: `${origin}.evil.example` },
        { origin: `${origin}/` },
        { origin: `${origin}@evil.example` },
        { origin, 'sec-fetch-site': 'cross-site' },
        { origin, 'sec-fetch-site': 'same-site' },
        { origin, 'sec-fetch-site': 'none' },
        { referer: `${origin}/` },
      ];
      for (const headers of foreign) {
        assert.equal(await createKey(headers), 'origin_not_allowed', JSON.stringify(headers));
      }
      const authorization = `Bearer ${key.key}`;
      assert.equal(
        await createKey({ authorization, origin: 'https://evil.example' }),
        null,
        'the key is used',
      );
      assert.equal(
        await createKey({ authorization: 'Bearer x', origin }),
        'invalid_api_key',
        'the key is used',
      );
    });

    test('a member who has made too many changes within an hour is refused, and operators are not', async () => {
      const invitation = { account_id: accountId, email: 'busy@example.com', role: 'member' };
      const { link } = await operator.ok('createInvitation', { body: invitation });
      const busy = fixture.browser();
      await busy.ok('acceptInvitation', { body: { token: tokenOf(link), name: 'Busy', password: PASSWORD } });
      const { user } = await busy.ok('getSession');
      assert.ok(user);
      const { id } = await busy.ok('createKey', { body: { name: 'changed', account_id: accountId } });
      const rotation = { params: { id }, body: {} };
      await busy.ok('rotateKey', rotation);
      const note = { action: 'key.update', subject: `key:${id}` } as const;
      const by = { id: `user:${user.id}`, ip: null };
      const append = (length: number) =>
        fixture.database.kysely
          .transaction()
          .execute((transaction) => appendAudit(transaction, by, ...Array.from({ length }, () => note)));
      const changes = () =>
        fixture.database.kysely.selectFrom('audit').select('id').where('actor', '=', by.id).execute();
      const before = (await changes()).length;
      // The bound is twice the number of keys that can be created.
      await append(1000 - before - 2);
      await Promise.all(Array.from({ length: 8 }, () => busy.call('rotateKey', rotation)));
      assert.ok((await changes()).length <= 1000, 'changes at the same time count too');
      await append(1000);
      const refused = await busy.call('rotateKey', rotation);
      assertRefused(refused, 'too_many_changes');
      assert.ok(Number(refused.headers.get('retry-after')) > 3000);
      await busy.ok('getKey', { params: { id } });
      await operator.ok('rotateKey', rotation);
    });

    test('a host name in Host is not trusted', async () => {
      const { port, host, origin } = new URL(fixture.test.url);
      const forged: Record<string, string>[] = [
        { host: 'evil.example', origin: 'http://evil.example' },
        { host: `evil.example:${port}`, origin: `http://evil.example:${port}` },
        { host: `127.0.0.1.evil.example:${port}`, origin: `http://127.0.0.1.evil.example:${port}` },
        { host: `user@127.0.0.1:${port}`, origin: `http://user@127.0.0.1:${port}` },
        { host: `127.0.0.1:${port}#`, origin: `http://127.0.0.1:${port}#` },
        { host: '2130706433', origin: 'http://2130706433' },
        { host: `LOCALHOST.evil.example`, origin: 'http://LOCALHOST.evil.example' },
        { host, 'x-forwarded-host': 'evil.example', origin: 'http://evil.example' },
        { host, forwarded: 'host=evil.example', origin: 'http://evil.example' },
      ];
      for (const headers of forged) {
        assert.equal(await createKey(headers), 'origin_not_allowed', JSON.stringify(headers));
      }
      // IP addresses and localhost are trusted: they cannot be registered by others.
      assert.equal(await createKey({ host: `localhost:${port}`, origin: `http://localhost:${port}` }), null);
      assert.equal(await createKey({ host: `[::1]:${port}`, origin: `http://[::1]:${port}` }), null);
      assert.equal(await createKey({ host: 'evil.example', origin }), null, 'the public URL is trusted');
    });
  });
}
