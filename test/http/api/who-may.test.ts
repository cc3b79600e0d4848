import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Contract } from '../../../src/http/api/contract.ts';
import { API_ENDPOINTS } from '../../../src/http/api/endpoints.ts';
import { chat, post } from '../../harness.ts';
import { testDatabases } from '../../servers.ts';
import { Browser, startPlace, tokenOf, type Place } from '../../identity/browser.ts';
import { TABLE, WHO, type Parts, type Things, type Who } from './who-may.ts';

const PASSWORD = 'correct horse battery';

/** Who is told one of these may not call. */
const REFUSALS: ReadonlySet<string | null> = new Set([
  'invalid_api_key',
  'sign_in_required',
  'admin_required',
  'owner_required',
  'origin_not_allowed',
  'not_found',
]);

/** Codes that these answer by themselves once they are allowed to look. */
const OWN_WORDS: Partial<Record<keyof Contract, readonly string[]>> = {
  // Nobody is half signed in, and no session has this id.
  signInSecondFactor: ['sign_in_required'],
  endSession: ['not_found'],
};

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let place: Place;
    let things: Things;
    let otherAccount: string;
    const browsers = new Map<Who, Browser>();
    const keys = new Map<Who, string>();

    before(async () => {
      place = await startPlace(kind);
      const operator = await place.operator();
      const admin = await place.test.service.keys.create({ name: 'admin', kind: 'admin' });
      const { id: accountId } = await operator.ok('createAccount', { body: { name: 'acme' } });
      otherAccount = (await operator.ok('createAccount', { body: { name: 'other' } })).id;
      const key = await operator.ok('createKey', { body: { name: 'key', account_id: accountId } });
      const joined = async (who: string, account: string, role: string): Promise<Browser> => {
        const email = `${who}@example.com`;
        const invited = await operator.ok('createInvitation', { body: { account_id: account, email, role } });
        const browser = place.browser();
        await browser.ok('acceptInvitation', {
          body: { token: tokenOf(invited.link), name: who, password: PASSWORD },
        });
        return browser;
      };
      browsers.set('operator', operator);
      browsers.set('stranger', await joined('stranger', otherAccount, 'owner'));
      browsers.set('member', await joined('member', accountId, 'member'));
      browsers.set('owner', await joined('owner', accountId, 'owner'));
      keys.set('key', key.key);
      keys.set('admin', admin.key.reveal());

      const answer = await post({ ...place.test, key: key.key }, '/v1/chat/completions', chat('hello'));
      await answer.text();
      let made = 0;
      const person = async () =>
        (await operator.ok('createPerson', { body: { name: 'x', email: `x${++made}@example.com` } })).id;
      things = {
        accountId,
        requestId: answer.headers.get('x-request-id') ?? '',
        key: async () => (await operator.ok('createKey', { body: { name: 'x', account_id: accountId } })).id,
        person,
        member: async () => {
          const id = await person();
          await operator.ok('setMember', {
            params: { id: accountId, person_id: id },
            body: { role: 'member' },
          });
          return id;
        },
        invitation: async () => {
          const body = { account_id: accountId, email: `y${++made}@example.com`, role: 'member' };
          return (await operator.ok('createInvitation', { body })).id;
        },
      };
    });
    after(() => place[Symbol.asyncDispose]());

    const ask = (who: Who, id: keyof Contract, parts: Parts & { headers?: Record<string, string> }) => {
      const key = keys.get(who);
      const headers = { ...parts.headers, ...(key !== undefined && { authorization: `Bearer ${key}` }) };
      return (browsers.get(who) ?? place.browser()).call(id, { ...parts, headers });
    };

    test('the table has every operation, and no other', () => {
      const ids = API_ENDPOINTS.map(({ operationId }) => operationId);
      assert.deepEqual(Object.keys(TABLE).sort(), ids.sort());
    });

    // Signing out comes last: it would make nobodies of all others.
    const ids = Object.keys(TABLE).sort((a, b) => Number(a === 'signOut') - Number(b === 'signOut'));
    for (const id of ids as (keyof Contract)[]) {
      test(`${id}: ${WHO.filter((who) => TABLE[id][0][who] === null).join(', ')}`, async () => {
        const [verdicts, parts] = TABLE[id];
        for (const who of WHO) {
          const { code, status } = await ask(who, id, (await parts?.(things)) ?? {});
          const told = OWN_WORDS[id]?.includes(code ?? '') ? null : code;
          const verdict = verdicts[who];
          if (verdict === null) assert.ok(!REFUSALS.has(told), `${who} may, and is told ${status} ${told}`);
          else assert.equal(told, verdict, `${who} is told ${status} ${told}`);
          assert.ok(status < 500, `${who}: ${status} ${code}`);
        }
      });
    }
  });
}
