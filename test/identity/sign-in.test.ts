import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { makeSetupLink } from '../../src/identity/setup.ts';
import { testDatabases } from '../servers.ts';
import { OPERATOR, startPlace, tokenOf } from './browser.ts';

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    test('the set-up link makes the first operator, once', async () => {
      await using place = await startPlace(kind);
      const { database, test: service } = place;
      const browser = place.browser();
      assert.equal((await browser.ok('getSession')).setup_needed, true);
      const link = await makeSetupLink(database, service.url);
      assert.ok(link);
      assert.ok(link.startsWith(`${service.url}/setup#`));
      const body = { token: tokenOf(link), ...OPERATOR };
      assert.equal((await browser.call('setUp', { body: { ...body, token: 'x' } })).code, 'invalid_link');
      await browser.ok('setUp', { body });
      const session = await browser.ok('getSession');
      assert.equal(session.setup_needed, false);
      assert.equal(session.person?.email, OPERATOR.email);
      assert.equal(session.person?.operator, true);
      assert.deepEqual(
        session.accounts.map(({ id, role }) => [id, role]),
        [['default', 'owner']],
      );
      assert.equal((await place.browser().call('setUp', { body })).code, 'invalid_link');
      assert.equal(await makeSetupLink(database, service.url), null);
    });
  });
}
