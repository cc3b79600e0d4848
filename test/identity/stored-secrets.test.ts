import assert from 'node:assert/strict';
import { readFile, rm, stat, writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import type { Database } from '../../src/database/database.ts';
import { SecretKeys, secretKeyPath } from '../../src/database/secret-keys.ts';
import { beginSecondFactor, consumeTotp } from '../../src/identity/second-factor.ts';
import { assertSharedKeys, prepareSecrets, rotateSecrets } from '../../src/identity/stored-secrets.ts';
import { Secret } from '../../src/support/secret.ts';
import { runCli, temporaryFolder } from '../harness.ts';
import { testDatabases } from '../support/servers.ts';
import { appCode } from './fixture.ts';

const A = 'a'.repeat(64);
const B = 'b'.repeat(64);
const USER = { id: 'user_1', email: 'zoe@example.com' };
const PLAIN = 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP';

const keysOf = (text: string) => new SecretKeys({ home: 'unused', text: new Secret(text) });

test('any text can be decrypted only in the place for which it was encrypted', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'grapheme' }), fc.string(), async (secret, place) => {
      const stored = await keysOf(A).encrypt(secret, place);
      assert.match(stored, /^v1:[0-9a-f]{8}:[\w-]+$/);
      assert.equal(await keysOf(`${B}, ${A}`).decrypt(stored, place), secret);
      await assert.rejects(keysOf(A).decrypt(stored, `${place}!`), { fault: 'secret_key' });
      await assert.rejects(keysOf(B).decrypt(stored, place), { fault: 'secret_key' });
    }),
  );
});

test('a changed ciphertext is refused', async () => {
  const stored = await keysOf(A).encrypt(PLAIN, 'here');
  const start = 'v1:00000000:'.length;
  for (let at = start; at < stored.length - 1; at++) {
    const other = stored[at] === 'A' ? 'B' : 'A';
    const changed = `${stored.slice(0, at)}${other}${stored.slice(at + 1)}`;
    await assert.rejects(keysOf(A).decrypt(changed, 'here'), { fault: 'secret_key' });
  }
  await assert.rejects(keysOf(A).decrypt(stored.slice(0, start + 4), 'here'), { fault: 'secret_key' });
});

test('the key file is created once, only its owner can read it, and damage is reported', async () => {
  await using folder = await temporaryFolder();
  const keys = new SecretKeys({ home: folder.path, text: null });
  await Promise.all([keys.createFile(), keys.createFile()]);
  const path = secretKeyPath(folder.path);
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  const text = await readFile(path, 'utf8');
  assert.match(text, /^[0-9a-f]{64}\n$/);
  await keys.createFile();
  assert.equal(await readFile(path, 'utf8'), text);
  await writeFile(path, 'nothing');
  await assert.rejects(keys.encrypt(PLAIN, 'here'), {
    fault: 'secret_key',
    message: /secret\.key is damaged/,
  });
});

test('keys that are added at the same time are all kept', async () => {
  await using folder = await temporaryFolder();
  const keys = new SecretKeys({ home: folder.path, text: null });
  await keys.createFile();
  await Promise.all(Array.from({ length: 8 }, () => keys.addKey()));
  assert.equal((await readFile(secretKeyPath(folder.path), 'utf8')).trim().split('\n').length, 9);
});

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    test('a second factor is stored encrypted, and its codes work', async () => {
      await using database = await withUser(kind);
      const keys = new SecretKeys({ home: database.home, text: null });
      assert.equal(await prepareSecrets(database, keys), 0);
      const created = await beginSecondFactor(database, keys, USER);
      assert.ok(created);
      assert.match(await storedSecret(database), /^v1:/);
      assert.equal(await consumeTotp(database, keys, USER.id, appCode(created.uri), false), true);
    });

    test('a secret in plain text is encrypted at the next start', async () => {
      await using database = await withUser(kind);
      const keys = new SecretKeys({ home: database.home, text: null });
      await insertPlain(database);
      assert.equal(await prepareSecrets(database, keys), 1);
      const stored = await storedSecret(database);
      assert.equal(await keys.decrypt(stored, 'second_factors.secret:user_1'), PLAIN);
      assert.equal(await prepareSecrets(database, keys), 0);
      assert.equal(await storedSecret(database), stored);
    });

    test('the service does not start, and creates no key, while the key of a secret is missing', async () => {
      await using database = await withUser(kind);
      await insertPlain(database);
      await prepareSecrets(database, new SecretKeys({ home: database.home, text: null }));
      await rm(secretKeyPath(database.home));
      const error = { fault: 'secret_key', message: /encrypted with the key [0-9a-f]{8}.*secret\.key/ };
      await assert.rejects(
        prepareSecrets(database, new SecretKeys({ home: database.home, text: null })),
        error,
      );
      await assert.rejects(stat(secretKeyPath(database.home)), { code: 'ENOENT' });
      await assert.rejects(prepareSecrets(database, keysOf(A)), { message: /Add it after the first key/ });
    });

    test('`secrets rotate` encrypts with a new key, and keeps the old key for backups', async () => {
      await using database = await withUser(kind);
      await insertPlain(database);
      const running = new SecretKeys({ home: database.home, text: null });
      await prepareSecrets(database, running);
      const before = await storedSecret(database);
      const { code, stderr } = await runCli(['secrets', 'rotate'], { ...process.env, ...database.env });
      assert.deepEqual([code, /Encrypted 1 secret with the new key/.test(stderr)], [0, true]);
      const after = await storedSecret(database);
      assert.notEqual(after.slice(0, 12), before.slice(0, 12));
      for (const stored of [before, after]) {
        assert.equal(await running.decrypt(stored, 'second_factors.secret:user_1'), PLAIN);
      }
    });

    test('a rotation encrypts with the first key in SLUICE_SECRET_KEY', async () => {
      await using database = await withUser(kind);
      await insertPlain(database);
      await prepareSecrets(database, keysOf(A));
      assert.equal(await rotateSecrets(database, keysOf(`${B},${A}`)), 1);
      assert.equal(await prepareSecrets(database, keysOf(B)), 0);
      await assert.rejects(prepareSecrets(database, keysOf(A)), { fault: 'secret_key' });
    });

    test('only several instances on PostgreSQL need SLUICE_SECRET_KEY', async () => {
      await using database = await withUser(kind);
      const keys = new SecretKeys({ home: database.home, text: null });
      const instance = { live: 1, lease_until: 0, started_at: 0, pid: 1 };
      await database.kysely.insertInto('instances').values(instance).execute();
      await assertSharedKeys(database, keys);
      await database.kysely.insertInto('instances').values(instance).execute();
      await insertPlain(database);
      await assertSharedKeys(database, keysOf(A));
      if (kind.name === 'SQLite') {
        await assertSharedKeys(database, keys);
        assert.equal(await prepareSecrets(database, keys), 1);
        return;
      }
      const message = /Set SLUICE_SECRET_KEY to the same value on every instance/;
      await assert.rejects(assertSharedKeys(database, keys), { code: 'not_configured', message });
      await assert.rejects(prepareSecrets(database, keys), { fault: 'secret_key', message });
      assert.equal(await prepareSecrets(database, keysOf(A)), 1);
    });
  });
}

async function withUser(kind: ReturnType<typeof testDatabases>[number]) {
  const database = await kind.open();
  const { id, email } = USER;
  await database.kysely.insertInto('users').values({ id, email, name: 'Zoe', created_at: 0 }).execute();
  return database;
}

/** Stores a secret as earlier versions did. */
async function insertPlain({ kysely }: Database): Promise<void> {
  const row = { user_id: USER.id, secret: PLAIN, confirmed: 1, last_step: 0, created_at: 0 };
  await kysely.insertInto('second_factors').values(row).execute();
}

async function storedSecret({ kysely }: Database): Promise<string> {
  const { secret } = await kysely.selectFrom('second_factors').select('secret').executeTakeFirstOrThrow();
  return secret;
}
