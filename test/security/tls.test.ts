import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { sql } from 'kysely';
import { openDatabase } from '../../src/database/database.ts';
import { ScriptedEngine } from '../support/scripted-engine/engine.ts';
import { serveEngine } from '../../src/engine/server.ts';
import { SILENT } from '../../src/support/log.ts';
import { Secret } from '../../src/support/secret.ts';
import { demand, FakeLedger, Fleet, openInstance } from '../accounts/limits/fleet.ts';
import { chat, MODEL, openService, post, startService, temporaryFolder, until } from '../harness.ts';
import { testDatabases, valkeyUrl, withoutPostgres, withoutValkey } from '../support/servers.ts';
import { CERTIFICATE, tlsProxy } from '../support/tls-proxy.ts';

test('a replica is called over TLS only if its certificate is trusted', async () => {
  const engine = await serveEngine(
    new ScriptedEngine(),
    { host: '127.0.0.1', port: 0 },
    { maxChoices: 1, modelId: MODEL, log: SILENT },
  );
  await using closing = new AsyncDisposableStack();
  closing.defer(() => engine.close());
  await using proxy = await tlsProxy(engine.port ?? 0);
  const yaml = `models: [{id: ${MODEL}, replicas: [{url: 'https://127.0.0.1:${proxy.port}', dialect: sluice}]}]`;
  {
    await using distrustful = await openService(yaml);
    const state = () => distrustful.service.router.overview()[0]?.replicas[0]?.state;
    await until(() => state()?.state === 'down', state);
    assert.match(JSON.stringify(state()), /self-signed certificate/);
  }
  const trusted = getCACertificates();
  setDefaultCACertificates([...trusted, CERTIFICATE]);
  try {
    await using service = await startService(yaml);
    assert.equal((await post(service, '/v1/chat/completions', chat('Hi'))).status, 200);
    assert.ok(proxy.connections() > 0);
  } finally {
    setDefaultCACertificates(trusted);
  }
});

describe('PostgreSQL over TLS', { skip: withoutPostgres }, () => {
  test('is used with the certificate authority of `sslrootcert`, and refused without it', async () => {
    const [, postgres] = testDatabases();
    assert.ok(postgres);
    await using location = await postgres.location();
    await using folder = await temporaryFolder();
    const url = new URL(location.url?.reveal() ?? '');
    await using proxy = await tlsProxy(Number(url.port), { startTls: true });
    url.port = `${proxy.port}`;
    url.searchParams.set('sslmode', 'verify-full');
    const open = () => openDatabase({ home: folder.path, url: new Secret(url.href) });
    await assert.rejects(open(), /SELF_SIGNED_CERT/);
    const file = join(folder.path, 'ca.pem');
    await writeFile(file, CERTIFICATE);
    url.searchParams.set('sslrootcert', file);
    await using database = await open();
    const { rows } = await sql<{ one: number }>`select 1 as one`.execute(database.kysely);
    assert.deepEqual(rows, [{ one: 1 }]);
  });
});

describe('Valkey over TLS', { skip: withoutValkey }, () => {
  test('is used with a `rediss://` URL', async () => {
    const url = new URL(await valkeyUrl());
    await using proxy = await tlsProxy(Number(url.port));
    url.protocol = 'rediss:';
    url.port = `${proxy.port}`;
    const trusted = getCACertificates();
    setDefaultCACertificates([...trusted, CERTIFICATE]);
    try {
      const ledger = new FakeLedger();
      const limits = await openInstance(url.href, ledger, { whenStoreUnavailable: 'refuse' });
      await using fleet = new Fleet(ledger, [limits]);
      await fleet.run(demand({ requestsInFlight: 1 }));
      await fleet.denied(demand({ requestsInFlight: 1 }));
      assert.ok(proxy.connections() > 0);
    } finally {
      setDefaultCACertificates(trusted);
    }
  });
});
