import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { testDatabases } from '../../servers.ts';
import { startPlace, tokenOf, type Answered, type Browser, type Place } from '../../identity/browser.ts';

const PASSWORD = 'correct horse battery';

/** Fails where the answer is not this error. */
function refused(answer: Answered, code: string, param: string | null = null): void {
  assert.deepEqual([answer.code, answer.param], [code, param], JSON.stringify(answer.body));
}

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let place: Place;
    let operator: Browser;
    let owner: Browser;
    let accountId: string;
    before(async () => {
      place = await startPlace(kind);
      operator = await place.operator();
      ({ id: accountId } = await operator.ok('createAccount', { body: { name: 'acme' } }));
      const body = { account_id: accountId, email: 'owner@example.com', role: 'owner' };
      const { link } = await operator.ok('createInvitation', { body });
      owner = place.browser();
      await owner.ok('acceptInvitation', {
        body: { token: tokenOf(link), name: 'Owen', password: PASSWORD },
      });
    });
    after(() => place[Symbol.asyncDispose]());

    test("what is others' is told of in the words for what is not there", async () => {
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
      for (const [id, others, nobodys] of pairs) {
        const [theirs, none] = [await owner.call(id, others), await owner.call(id, nobodys)];
        assert.equal(theirs.status, 404, id);
        assert.deepEqual(theirs.body, none.body, id);
      }
      assert.equal((await operator.ok('getKey', { params: { id: otherKey } })).name, 'other');
    });

    test("a key of another account narrows what is one's own to nothing", async () => {
      const { id: key_id } = await operator.ok('createKey', { body: { name: 'other' } });
      const query = { account_id: accountId, key_id };
      assert.deepEqual((await owner.ok('listRequests', { query })).data, []);
      assert.equal((await owner.ok('readUsage', { query })).data[0]?.requests, 0);
      refused(await owner.call('readLimits', { query }), 'not_found', 'id');
    });

    test('an account has to be named by all but operators', async () => {
      for (const id of ['listKeys', 'readUsage', 'listRequests', 'listInvitations'] as const) {
        refused(await owner.call(id), 'missing_required_parameter', 'account_id');
        await operator.ok(id);
      }
      const body = { name: 'a' };
      refused(await owner.call('createKey', { body }), 'missing_required_parameter', 'account_id');
      assert.equal((await operator.ok('createKey', { body })).account_id, 'default');
      const query = { client_request_id: 'a' };
      refused(await owner.call('listReceipts', { query }), 'missing_required_parameter', 'account_id');
      refused(await operator.call('listReceipts', { query }), 'missing_required_parameter', 'account_id');
    });

    test('plan, status, and keys that may manage are for operators, also in an account of one', async () => {
      const params = { id: accountId };
      for (const body of [{ plan: null }, { status: 'closed' }, { name: 'x', status: 'active' }]) {
        refused(await owner.call('changeAccount', { params, body }), 'admin_required');
      }
      assert.equal((await owner.ok('changeAccount', { params, body: { name: 'Acme' } })).name, 'Acme');
      const made = { account_id: accountId, name: 'ops', kind: 'admin' };
      refused(await owner.call('createKey', { body: made }), 'admin_required');
      const { id } = await operator.ok('createKey', { body: made });
      refused(await owner.call('changeKey', { params: { id }, body: { name: 'x' } }), 'admin_required');
      refused(await owner.call('revokeKey', { params: { id } }), 'admin_required');
      assert.equal((await operator.ok('getKey', { params: { id } })).status, 'live');
    });

    test('an owner changes the roles of members, and adds nobody but by invitation', async () => {
      const { id } = await operator.ok('createPerson', { body: { name: 'x', email: 'x@example.com' } });
      const part = { params: { id: accountId, person_id: id }, body: { role: 'member' } };
      refused(await owner.call('setMember', part), 'not_found', 'person_id');
      await operator.ok('setMember', part);
      assert.equal((await owner.ok('setMember', { ...part, body: { role: 'owner' } })).role, 'owner');
      await owner.ok('removeMember', part);
    });

    test('the audit log has who did it', async () => {
      const { id } = await owner.ok('createKey', { body: { name: 'a', account_id: accountId } });
      const { data } = await operator.ok('listAudit', { query: { subject: `key:${id}` } });
      const me = (await owner.ok('getSession')).person?.id;
      assert.deepEqual([data[0]?.actor, data[0]?.ip], [`person:${me}`, owner.ip]);
    });

    /** Asks for a key as the signed-in owner, with these headers and no others. */
    const change = async (headers: Record<string, string>): Promise<string | null> => {
      const cookie = [...owner.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const { host, hostname, port } = new URL(place.test.url);
      const all = { host, cookie, ...headers };
      return await new Promise((resolve, reject) => {
        const options = { hostname, port, method: 'POST', path: '/api/keys', headers: all };
        const sent = request(options, (answer) => {
          let text = '';
          answer.setEncoding('utf8').on('data', (part: string) => (text += part));
          answer.on('end', () => {
            const { error } = JSON.parse(text) as { error?: { code: string } };
            assert.equal(answer.headers['access-control-allow-origin'], undefined);
            resolve(error?.code ?? null);
          });
        });
        sent.on('error', reject);
        sent.end(JSON.stringify({ name: 'a', account_id: accountId }));
      });
    };

    test('a change by a session is made for pages of ours alone', async () => {
      const { origin, port } = new URL(place.test.url);
      const key = await operator.ok('createKey', { body: { name: 'a', kind: 'admin' } });
      assert.equal(await change({ origin }), null);
      assert.equal(await change({ origin, 'sec-fetch-site': 'same-origin' }), null);
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
        assert.equal(await change(headers), 'origin_not_allowed', JSON.stringify(headers));
      }
      const authorization = `Bearer ${key.key}`;
      assert.equal(await change({ authorization, origin: 'https://evil.example' }), null, 'the key counts');
      assert.equal(await change({ authorization: 'Bearer x', origin }), 'invalid_api_key', 'the key counts');
    });

    test('a name in a Host is not believed, whoever claims it', async () => {
      const { port, host, origin } = new URL(place.test.url);
      const tricks: Record<string, string>[] = [
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
      for (const headers of tricks) {
        assert.equal(await change(headers), 'origin_not_allowed', JSON.stringify(headers));
      }
      // The address that was dialled is, where nobody can have registered it.
      assert.equal(await change({ host: `localhost:${port}`, origin: `http://localhost:${port}` }), null);
      assert.equal(await change({ host: `[::1]:${port}`, origin: `http://[::1]:${port}` }), null);
      assert.equal(await change({ host: 'evil.example', origin }), null, 'the public address is ours');
    });
  });
}
