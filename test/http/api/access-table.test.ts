import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Contract } from '../../../src/http/api/contract.ts';
import { API_ENDPOINTS } from '../../../src/http/api/endpoints.ts';
import { chat, post } from '../../harness.ts';
import { testDatabases } from '../../support/servers.ts';
import { Browser, startIdentityFixture, tokenOf, type IdentityFixture } from '../../identity/fixture.ts';
import { ACCESS_TABLE, CALLERS, type Parts, type Resources, type TestCaller } from './access-table.ts';

const PASSWORD = 'correct horse battery';

/** Errors of authorization. */
const REFUSALS: ReadonlySet<string | null> = new Set([
  'invalid_api_key',
  'sign_in_required',
  'admin_required',
  'owner_required',
  'origin_not_allowed',
  'not_found',
]);

/** Operations that return one of these codes after authorization has succeeded. */
const OWN_ERRORS: Partial<Record<keyof Contract, readonly string[]>> = {
  // In this test, no sign-in waits for a second factor, and the session ID does not exist.
  signInSecondFactor: ['sign_in_required'],
  endSession: ['not_found'],
};

/** Fewer callers on PostgreSQL. They are enough to run the queries of each operation and kind of permission. */
const CALLERS_ON_POSTGRESQL: readonly TestCaller[] = ['outsider', 'owner', 'operator'];

for (const kind of testDatabases()) {
  const callers = kind.name === 'PostgreSQL' ? CALLERS_ON_POSTGRESQL : CALLERS;

  describe(kind.name, () => {
    let fixture: IdentityFixture;
    let resources: Resources;
    let otherAccount: string;
    const browsers = new Map<TestCaller, Browser>();
    const keys = new Map<TestCaller, string>();

    before(async () => {
      fixture = await startIdentityFixture(kind);
      const operator = await fixture.operator();
      const admin = await fixture.test.service.keys.create({ name: 'admin', kind: 'admin' });
      const { id: accountId } = await operator.ok('createAccount', { body: { name: 'acme' } });
      otherAccount = (await operator.ok('createAccount', { body: { name: 'other' } })).id;
      const key = await operator.ok('createKey', { body: { name: 'key', account_id: accountId } });
      const joined = async (who: string, account: string, role: string): Promise<Browser> => {
        const email = `${who}@example.com`;
        const invited = await operator.ok('createInvitation', { body: { account_id: account, email, role } });
        const browser = fixture.browser();
        await browser.ok('acceptInvitation', {
          body: { token: tokenOf(invited.link), name: who, password: PASSWORD },
        });
        return browser;
      };
      browsers.set('operator', operator);
      browsers.set('outsider', await joined('outsider', otherAccount, 'owner'));
      browsers.set('member', await joined('member', accountId, 'member'));
      browsers.set('owner', await joined('owner', accountId, 'owner'));
      keys.set('key', key.key);
      keys.set('admin', admin.key.reveal());

      const response = await post({ ...fixture.test, key: key.key }, '/v1/chat/completions', chat('hello'));
      await response.text();
      let created = 0;
      const user = async () =>
        (await operator.ok('createUser', { body: { name: 'x', email: `x${++created}@example.com` } })).id;
      resources = {
        accountId,
        requestId: response.headers.get('x-request-id') ?? '',
        key: async () => (await operator.ok('createKey', { body: { name: 'x', account_id: accountId } })).id,
        user,
        member: async () => {
          const id = await user();
          await operator.ok('setMember', {
            params: { id: accountId, user_id: id },
            body: { role: 'member' },
          });
          return id;
        },
        invitation: async () => {
          const body = { account_id: accountId, email: `y${++created}@example.com`, role: 'member' };
          return (await operator.ok('createInvitation', { body })).id;
        },
      };
    });
    after(() => fixture[Symbol.asyncDispose]());

    const callAs = (
      caller: TestCaller,
      id: keyof Contract,
      parts: Parts & { headers?: Record<string, string> },
    ) => {
      const key = keys.get(caller);
      const headers = { ...parts.headers, ...(key !== undefined && { authorization: `Bearer ${key}` }) };
      return (browsers.get(caller) ?? fixture.browser()).call(id, { ...parts, headers });
    };

    test('the table contains exactly the operations of the API', () => {
      const ids = API_ENDPOINTS.map(({ operationId }) => operationId);
      assert.deepEqual(Object.keys(ACCESS_TABLE).sort(), ids.sort());
    });

    // Signing out is last, because the other operations need the sessions.
    const ids = Object.keys(ACCESS_TABLE).sort((a, b) => Number(a === 'signOut') - Number(b === 'signOut'));
    for (const id of ids as (keyof Contract)[]) {
      test(`${id} is allowed for ${callers.filter((caller) => ACCESS_TABLE[id][0][caller] === null).join(', ')}`, async () => {
        const [verdicts, parts] = ACCESS_TABLE[id];
        for (const caller of callers) {
          const { code, status } = await callAs(caller, id, (await parts?.(resources)) ?? {});
          const refusal = OWN_ERRORS[id]?.includes(code ?? '') ? null : code;
          const verdict = verdicts[caller];
          if (verdict === null) assert.ok(!REFUSALS.has(refusal), `${caller}: ${status} ${refusal}`);
          else assert.equal(refusal, verdict, `${caller}: ${status} ${refusal}`);
          assert.ok(status < 500, `${caller}: ${status} ${code}`);
        }
      });
    }
  });
}
