import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Sealing } from '../../src/accounts/sealing.ts';
import { SecretKeys } from '../../src/database/secret-keys.ts';
import { temporaryFolder } from '../harness.ts';

test('sealed texts can be opened after the keys were rotated and by instances with the same keys, but by no others', async () => {
  await using folder = await temporaryFolder();
  await using elsewhere = await temporaryFolder();
  const keys = new SecretKeys({ home: folder.path, text: null });
  const others = new SecretKeys({ home: elsewhere.path, text: null });
  await keys.createFile();
  await others.createFile();
  const before = await Sealing.open(keys);
  const sealed = before.of('account').seal('A thought. 🙂');
  await keys.addKey();
  const after = await Sealing.open(keys);
  assert.equal(after.of('account').open(sealed), 'A thought. 🙂');
  assert.equal(before.of('account').open(after.of('account').seal('new')), null);
  assert.equal(after.of('other').open(sealed), null);
  assert.equal((await Sealing.open(others)).of('account').open(sealed), null);
});

test('texts are sealed with keys that are derived from those of the database, and not with these', async () => {
  await using folder = await temporaryFolder();
  const keys = new SecretKeys({ home: folder.path, text: null });
  await keys.createFile();
  const secret = await keys.encrypt('secret of the database', 'account');
  const [, id = '', text = ''] = secret.split(':');
  assert.equal((await Sealing.open(keys)).of('account').open(id + text), null);
});
