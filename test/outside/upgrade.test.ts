import assert from 'node:assert/strict';
import { once } from 'node:events';
import { cp, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { Client } from 'pg';
import { scripted } from '../support/scripted-engine/directive.ts';
import {
  chat,
  collectOutput,
  runCli,
  scriptedYaml,
  spawnService,
  temporaryFolder,
  until,
  type ServiceProcess,
} from '../harness.ts';
import { start as startProgram } from '../commands/program.ts';
import { Management } from '../management.ts';
import { POSTGRES, valkeyUrl, withoutPostgres, withoutValkey } from '../support/servers.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const CALLERS = 8;
const TOKENS = 40;
const YAML = scriptedYaml({ slots: CALLERS }, 'ledger: {checkpointMs: 20}\ndrainMs: 60000\n');
const NEW_MIGRATION = '9999_test';

/**
 * Copies the sources as a newer version, with a migration that adds a column to the ledger and a table. Resolves with its
 * `main.ts`.
 */
async function newerVersion(folder: string): Promise<string> {
  const manifest = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as object;
  await writeFile(join(folder, 'package.json'), JSON.stringify({ ...manifest, version: '99.0.0' }));
  for (const name of ['node_modules', 'console', 'docs']) await symlink(join(ROOT, name), join(folder, name));
  await cp(join(ROOT, 'src'), join(folder, 'src'), { recursive: true });
  const path = join(folder, 'src/database/migrations.ts');
  const source = await readFile(path, 'utf8');
  const migration = `['${NEW_MIGRATION}', async (database) => {
    await sql\`alter table ledger add column test_note text\`.execute(database);
    await sql\`create table test_notes (id text primary key)\`.execute(database);
  }],\n]);`;
  const changed = source.replace(/^\]\);$/m, migration);
  assert.notEqual(changed, source);
  await writeFile(path, changed);
  return join(folder, 'src/main.ts');
}

/** Sends requests to instances that are ready, as a load balancer does. */
class LoadBalancer {
  readonly #instances = new Set<ServiceProcess>();
  #next = 0;

  /** Adds an instance once it is ready. */
  async add(instance: ServiceProcess): Promise<void> {
    await until(async () => (await fetch(`${instance.url}/readyz`)).ok);
    this.#instances.add(instance);
  }

  /** Stops an instance. Requests are sent there until it reports that it is not ready. */
  async stop(instance: ServiceProcess): Promise<void> {
    instance.child.kill('SIGTERM');
    await until(async () => !(await fetch(`${instance.url}/readyz`).catch(() => null))?.ok);
    this.#instances.delete(instance);
    assert.equal(await instance.ended, 0, instance.stderr());
  }

  /** Sends a request to the instances in turn. If one refuses it because it is stopping, sends it to another one. */
  async send(key: string, body: object): Promise<{ url: string; response: Response }> {
    for (;;) {
      const instances = [...this.#instances];
      const { url } = instances[this.#next++ % instances.length] ?? assert.fail('no instance is ready');
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
        body: JSON.stringify(body),
      }).catch((error: Error) => {
        // The instance has stopped, so the request was not sent.
        if ((error.cause as { code?: string }).code === 'ECONNREFUSED') return null;
        throw error;
      });
      if (response !== null && response.status !== 503) return { url, response };
      await response?.text();
    }
  }
}

describe('a rolling upgrade', { skip: withoutPostgres || withoutValkey }, () => {
  test('loses no request, and earlier instances keep working on the migrated database', async () => {
    await using owned = new AsyncDisposableStack();
    const newer = await newerVersion(owned.use(await temporaryFolder()).path);
    const location = owned.use(await POSTGRES.location());
    const shared = {
      SLUICE_DATABASE_URL: location.env.SLUICE_DATABASE_URL,
      SLUICE_VALKEY_URL: await valkeyUrl(),
    };
    const start = async (main?: string) => owned.use(await spawnService(YAML, shared, main));
    const balancer = new LoadBalancer();
    const earlier = [await start(), await start()] as const;
    for (const instance of earlier) await balancer.add(instance);
    const manager = await Management.ofProcess(earlier[0]);
    const { key, keyId } = await manager.caller();
    const backup = join(earlier[0].home, 'backup.db');
    assert.equal((await runCli(['database', 'backup', backup], earlier[0].env)).code, 0);

    /** Number of complete responses by the URL of their instance. */
    const responses = new Map<string, number>();
    const countOf = ({ url }: ServiceProcess): number => responses.get(url) ?? 0;
    const stop = new AbortController();
    const callers = Array.from({ length: CALLERS }, async (_, index) => {
      const stream = index % 2 === 0;
      while (!stop.signal.aborted) {
        const { url, response } = await balancer.send(
          key,
          chat(scripted({ tokens: TOKENS, tokenMs: 10 }), { stream }),
        );
        const body = await response.text();
        assert.equal(response.status, 200, body);
        if (stream)
          assert.ok(body.endsWith('data: [DONE]\n\n') && !body.includes('"error"'), body.slice(-500));
        assert.ok(body.includes('"finish_reason":"stop"'), body.slice(-500));
        responses.set(url, (responses.get(url) ?? 0) + 1);
      }
    });
    const finished = Promise.all(callers);
    /** Waits until each of these instances has completed further requests. */
    const untilServing = async (...instances: ServiceProcess[]) => {
      const before = instances.map(countOf);
      const serve = () => instances.every((each, index) => countOf(each) >= (before[index] ?? 0) + CALLERS);
      await Promise.race([until(serve), finished]);
    };

    await untilServing(...earlier);
    const first = await start(newer);
    assert.match(first.stdout(), /^Sluice 99\.0\.0 is listening/m);
    await balancer.add(first);
    // Both versions serve requests on the migrated database.
    await untilServing(...earlier, first);
    await balancer.stop(earlier[0]);
    const second = await start(newer);
    await balancer.add(second);
    await untilServing(earlier[1], first, second);
    await balancer.stop(earlier[1]);
    await untilServing(first, second);
    stop.abort();
    await finished;

    const client = new Client({ connectionString: location.url?.reveal() });
    await client.connect();
    owned.defer(() => client.end());
    const { rows } = await client.query<Record<string, unknown>>(
      'select state, completion_tokens::int as tokens, billed, count(*)::int as count from ledger group by 1, 2, 3',
    );
    const total = [...responses.values()].reduce((sum, count) => sum + count, 0);
    assert.deepEqual(rows, [{ state: 'settled', tokens: TOKENS, billed: 1, count: total }]);

    // The earlier version can only be used again with the backup, in another database.
    const refused = await runCli(['keys', 'list'], earlier[0].env);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, new RegExp(`migrated by a newer version of Sluice \\(${NEW_MIGRATION}\\)`));
    const empty = owned.use(await POSTGRES.emptyLocation());
    const env = { ...earlier[0].env, ...empty.env };
    const restored = await runCli(['database', 'restore', backup], env);
    assert.equal(restored.code, 0, restored.stderr);
    const listed = await runCli(['keys', 'list', '--json'], env);
    assert.ok(listed.stdout.includes(keyId), listed.stdout + listed.stderr);
  });
});

test('SIGTERM stops a service that waits to migrate', { skip: withoutPostgres }, async () => {
  await using owned = new AsyncDisposableStack();
  const { env, url } = owned.use(await POSTGRES.location());
  const reader = new Client({ connectionString: url?.reveal(), application_name: 'pg_dump' });
  await reader.connect();
  owned.defer(() => reader.end());
  await reader.query(`delete from migrations where name = '0017_protocols'`);
  await reader.query('begin; select count(*) from ledger');
  const child = startProgram(['serve'], { ...env, SLUICE_PORT: '0' });
  owned.defer(() => void child.kill('SIGKILL'));
  const output = collectOutput(child);
  const ended = once(child, 'close');
  await until(() => /"lockedBy":"pg_dump .*waiting to migrate the database/.test(output.stderr));
  child.kill('SIGTERM');
  assert.deepEqual(await ended, [0, null], output.stderr);
});
