import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { chat, MODEL, post, startService, temporaryFolder, until } from '../harness.ts';
import { SERVE_SCRIPTED } from '../support/scripted-engine/options.ts';
import { scripted } from '../support/scripted-engine/directive.ts';
import { Program } from '../support/program.ts';
import { freePort } from '../support/server-process.ts';

/** Number of streams, at least. CONTRIBUTING.md describes the long run. */
const STREAMS = Number(process.env.SLUICE_TEST_STREAMS ?? 60);
const CALLERS = 16;
const REPLICAS = 4;
const TOKENS = 40;
const KILL_MS = 1000;

/** Runs an engine, which is started again whenever it ends. */
class Replica {
  readonly url: string;
  readonly program: Program;

  constructor(port: number, folder: string) {
    this.url = `http://127.0.0.1:${port}`;
    const options = ['--model', MODEL, '--port', String(port), JSON.stringify({ slots: CALLERS })];
    this.program = new Program({
      args: [SERVE_SCRIPTED, ...options],
      env: process.env,
      logFile: join(folder, `${port}.log`),
    });
    this.program.up();
  }

  async isReady(): Promise<boolean> {
    return (await fetch(`${this.url}/health`).catch(() => null))?.ok ?? false;
  }
}

test('no caller notices that replicas are killed while another replica is ready, and the ledger is exact', async (context) => {
  await using owned = new AsyncDisposableStack();
  const { path: folder } = owned.use(await temporaryFolder());
  const replicas: Replica[] = [];
  for (let index = 0; index < REPLICAS; index++) {
    const replica = new Replica(await freePort(), folder);
    owned.use(replica.program);
    replicas.push(replica);
  }
  const urls = replicas.map(({ url }) => `{url: '${url}', dialect: sluice}`);
  const service = owned.use(
    await startService(
      `models: [{id: ${MODEL}, replicas: [${urls.join(', ')}]}]\nrecovery: {maxAttempts: 5}`,
    ),
  );

  await until(
    () =>
      service.service.router.overview()[0]?.replicas.every(({ state }) => state.state === 'ready') ?? false,
  );

  const killed: number[] = [];
  /** Kills the replicas in turn, each only while it has requests and two others are ready, which the service knows. */
  const kill = async (): Promise<void> => {
    const index = killed.length % REPLICAS;
    const ready = await Promise.all(replicas.map((each) => each.isReady()));
    const pid = replicas[index]?.program.pid ?? null;
    const seen = service.service.router.overview()[0]?.replicas ?? [];
    const others = seen.filter(({ state }, at) => at !== index && ready[at] && state.state === 'ready');
    if (pid === null || !seen[index]?.inFlight || others.length < 2) return;
    process.kill(pid, 'SIGKILL');
    killed.push(pid);
  };
  const timer = setInterval(() => void kill(), KILL_MS);
  owned.defer(() => clearInterval(timer));

  const sent = new Set<string>();
  let next = 0;
  const caller = async (): Promise<void> => {
    // Starting a replica again can take longer than the streams.
    while (next < STREAMS || killed.length < 2) {
      const stream = next++;
      const text = Array.from({ length: TOKENS }, (_, index) => `${stream}-${index}`).join(' ');
      const response = await post(
        service,
        '/v1/chat/completions',
        chat(scripted({ text, tokenMs: 20 }), { stream: true, stream_options: { include_usage: true } }),
      );
      const body = await response.text();
      assert.equal(response.status, 200, body);
      const parts = [...body.matchAll(/"content":"([^"]*)"/g)].map(([, part]) => part);
      assert.equal(parts.join(''), text, body.slice(-1000));
      assert.ok(body.endsWith('data: [DONE]\n\n'), body.slice(-1000));
      assert.match(body, new RegExp(`"completion_tokens":${TOKENS}\\D`));
      sent.add(response.headers.get('x-request-id') ?? '');
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  clearInterval(timer);

  using database = new DatabaseSync(join(service.home, 'sluice.db'), { readOnly: true });
  const rows = database
    .prepare(
      'select id, state, billed, completion_tokens as tokens, continued_after as continued from ledger',
    )
    .all();
  assert.deepEqual(new Set(rows.map(({ id }) => id)), sent);
  assert.equal(rows.length, next);
  for (const { state, billed, tokens } of rows)
    assert.deepEqual([state, billed, tokens], ['settled', 1, TOKENS]);
  const continued = rows.filter((row) => row.continued !== null).length;
  assert.ok(killed.length > 0 && continued > 0);
  context.diagnostic(`${next} streams, ${killed.length} replicas killed, ${continued} streams continued`);
});
