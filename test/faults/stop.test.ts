import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import { chat, MODEL, scriptedYaml, spawnService, until, type ServiceProcess } from '../harness.ts';
import { NO_END } from '../support/default-model.ts';
import { assertEndsWith, assertError, exchange, requestText, Wire } from '../http/wire.ts';
import { Management } from '../management.ts';
import { FakeHub } from '../models/fake-hub.ts';
import { buildGguf } from '../models/gguf-builder.ts';

/** Longer than any test. */
const FOREVER = 1_000_000;

/** A ready service in a child process, with a key and the process IDs of its engines. */
class ReadyService implements AsyncDisposable {
  readonly #service: ServiceProcess;
  readonly engines: readonly number[];
  readonly #key: string;

  private constructor(service: ServiceProcess, engines: readonly number[], key: string) {
    this.#service = service;
    this.engines = engines;
    this.#key = key;
  }

  static async start(yaml = scriptedYaml()): Promise<ReadyService> {
    const service = await spawnService(yaml);
    const { admin } = await Management.ofProcess(service);
    const pids = () =>
      [...service.stderr().matchAll(/"pid":(\d+).*"message":"engine ready"/g)].map(([, pid]) => Number(pid));
    await until(() => pids().length === yaml.split('file:').length - 1);
    return new ReadyService(service, pids(), admin);
  }

  get ended(): ServiceProcess['ended'] {
    return this.#service.ended;
  }

  async get(path: string): ReturnType<typeof exchange> {
    return await exchange(this.#service.url, requestText(`GET ${path}`));
  }

  async send(directive: Directive, stream = true, model = MODEL): Promise<Wire> {
    const body = chat(scripted(directive), { model, stream, logit_bias: NO_END });
    const wire = await Wire.open(this.#service.url);
    return wire.send(
      requestText('POST /v1/chat/completions', { Authorization: `Bearer ${this.#key}` }, body),
    );
  }

  /** Waits until this many generations are running. */
  async waitUntilRunning(count: number): Promise<void> {
    const readyz = requestText('GET /readyz', { Authorization: `Bearer ${this.#key}` });
    await until(async () => (await exchange(this.#service.url, readyz)).body.includes(`"running":${count},`));
  }

  /** Opens a stream and waits for its first token. */
  async stream(directive: Directive, model = MODEL): Promise<Wire> {
    const wire = await this.send(directive, true, model);
    await wire.head();
    for (let text = ''; !text.includes('"delta":{"content"');) text += (await wire.chunk()) ?? '';
    return wire;
  }

  signal(name: NodeJS.Signals): void {
    this.#service.child.kill(name);
  }

  signalEngines(name: NodeJS.Signals): void {
    for (const pid of this.engines) process.kill(pid, name);
  }

  /** Sends the first signal and waits until the service has handled it. */
  async stop(name: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    this.signal(name);
    await until(() => this.#service.stderr().includes('"message":"stopping"'));
  }

  /** Repeats the signal until the service ends, because a signal right after the first one is ignored. */
  async signalUntilEnded(name: NodeJS.Signals): Promise<void> {
    let ended = false;
    void this.ended.then(() => (ended = true));
    await until(() => ended || (this.signal(name), false));
  }

  /** Waits until all engine processes have ended. */
  async enginesEnded(): Promise<void> {
    await until(async () => (await Promise.all(this.engines.map(hasEnded))).every(Boolean));
  }

  async runFiles(): Promise<string[]> {
    return await readdir(join(this.#service.home, 'run'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service[Symbol.asyncDispose]();
  }
}

/** Returns whether a process has ended, possibly as a zombie. */
async function hasEnded(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0);
  } catch {
    return true;
  }
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return stat.includes(') Z ');
}

test('SIGTERM lets running requests finish and refuses new ones with shutting_down; then the service exits with 0', async () => {
  await using service = await ReadyService.start();
  // The requests run until the engine continues.
  service.signalEngines('SIGSTOP');
  using stream = await service.send({ tokens: 100 });
  using whole = await service.send({ tokens: 100 }, false);
  await service.waitUntilRunning(2);
  await service.stop();
  using late = await service.send({});
  const refused = await late.response();
  assertError(refused, 'shutting_down');
  assert.equal(refused.header('retry-after'), '1');
  const readiness = await service.get('/readyz');
  assert.deepEqual([readiness.status, readiness.body], [503, '{"status":"shutting_down","progress":[]}']);
  assert.equal((await service.get('/healthz')).status, 200);
  service.signalEngines('SIGCONT');
  assert.match((await stream.response()).body, /"finish_reason":"stop".*\n\ndata: \[DONE\]\n\n$/);
  assert.match((await whole.response()).body, /"finish_reason":"stop"/);
  assert.equal(await service.ended, 0);
  await service.enginesEnded();
  assert.deepEqual(await service.runFiles(), []);
});

test('requests that do not finish within drainMs end with an error, and the service exits with 0', async () => {
  await using service = await ReadyService.start(scriptedYaml({}, 'drainMs: 300\n'));
  using stream = await service.stream({ tokens: 9, tokenMs: FOREVER });
  using whole = await service.send({ tokens: 9, tokenMs: FOREVER }, false);
  await service.waitUntilRunning(2);
  await service.stop();
  assert.equal(assertEndsWith(await stream.restOfBody(), 'shutting_down'), 1);
  assertError(await whole.response(), 'shutting_down');
  assert.equal(await service.ended, 0);
  await service.enginesEnded();
});

test('Ctrl-C, which the terminal also sends to the engines, lets running requests finish', async () => {
  await using service = await ReadyService.start();
  using stream = await service.stream({ tokens: 100, tokenMs: 10 });
  service.signalEngines('SIGINT');
  await service.stop('SIGINT');
  assert.match(await stream.restOfBody(), /"finish_reason":"stop".*\n\ndata: \[DONE\]\n\n$/);
  assert.equal(await service.ended, 0);
  await service.enginesEnded();
});

for (const [first, second, code] of [
  ['SIGTERM', 'SIGTERM', 143],
  ['SIGTERM', 'SIGINT', 130],
] as const) {
  test(`a second signal, ${second}, stops the service and its engines immediately with exit code ${code}`, async () => {
    await using service = await ReadyService.start();
    using stream = await service.stream({ tokens: 9, tokenMs: FOREVER });
    await service.stop(first);
    await service.signalUntilEnded(second);
    assert.equal(await service.ended, code);
    assert.doesNotMatch(await stream.rest(), /\[DONE\]/);
    await service.enginesEnded();
  });
}

test('a second signal also ends an engine that hangs', async () => {
  await using service = await ReadyService.start();
  using stream = await service.stream({ tokens: 9, freezeAfter: 1 });
  await service.stop();
  await service.signalUntilEnded('SIGTERM');
  assert.equal(await service.ended, 143);
  await stream.rest();
  await service.enginesEnded();
});

const FILE = process.env.SLUICE_TEST_MODEL;
const REAL = 'test/real';

test('idle engines and busy ones, also during a decode, end when the service is killed with SIGKILL', async (t) => {
  const models = [MODEL, 'test/idle'].map((id) => `  - {id: ${id}, engine: {file: 'scripted:'}}\n`);
  if (FILE === undefined) t.diagnostic('SLUICE_TEST_MODEL is not set, so no engine is decoding');
  else models.push(`  - {id: ${REAL}, engine: {file: ${FILE}, slots: 1, contextTokens: 512, threads: 1}}\n`);
  await using service = await ReadyService.start(`models:\n${models.join('')}`);
  assert.equal(service.engines.length, models.length);
  using stream = await service.stream({ tokens: 9, tokenMs: FOREVER });
  using decoding = FILE === undefined ? null : await service.stream({}, REAL);
  service.signal('SIGKILL');
  assert.equal(await service.ended, 'SIGKILL');
  await Promise.all([stream.rest(), decoding?.rest()]);
  await service.enginesEnded();
});

test('a service that is stopped while its model is loading or downloading exits with 0', async () => {
  await using loading = await spawnService(scriptedYaml({ loadMs: FOREVER }));
  await until(() => loading.stdout().includes('Loading test/scripted'));
  loading.child.kill('SIGTERM');
  assert.equal(await loading.ended, 0);

  await using hub = await FakeHub.open();
  hub.files.set('tiny.gguf', buildGguf());
  hub.script = [{ stallAfter: 100 }];
  const yaml = 'models:\n  - id: test/model\n    engine: {file: hf:owner/repo/tiny.gguf}\n';
  await using downloading = await spawnService(yaml, { HF_ENDPOINT: hub.endpoint });
  await until(() => hub.fetches.length === 1);
  downloading.child.kill('SIGTERM');
  assert.equal(await downloading.ended, 0);
});
