import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { scripted, type Directive } from '../../src/engine/scripted/options.ts';
import { chat, MODEL, scriptedYaml, spawnService, until, type ServiceProcess } from '../harness.ts';
import { NO_END } from '../default-model.ts';
import { assertEndsWith, assertError, exchange, requestText, Wire } from '../http/wire.ts';
import { Management } from '../management.ts';
import { FakeHub } from '../models/fake-hub.ts';
import { buildGguf } from '../models/gguf-builder.ts';

/** Longer than any test. */
const FOREVER = 1_000_000;

/** A service that is ready, as a process of its own, with a key and the process ids of its engines. */
class Running implements AsyncDisposable {
  readonly #service: ServiceProcess;
  readonly engines: readonly number[];
  readonly #key: string;

  private constructor(service: ServiceProcess, engines: readonly number[], key: string) {
    this.#service = service;
    this.engines = engines;
    this.#key = key;
  }

  static async start(yaml = scriptedYaml()): Promise<Running> {
    const service = await spawnService(yaml);
    const { admin } = await Management.ofProcess(service);
    const pids = () =>
      [...service.stderr().matchAll(/"pid":(\d+).*"message":"engine ready"/g)].map(([, pid]) => Number(pid));
    await until(() => pids().length === yaml.split('file:').length - 1);
    return new Running(service, pids(), admin);
  }

  get ended(): ServiceProcess['ended'] {
    return this.#service.ended;
  }

  async get(path: string): ReturnType<typeof exchange> {
    return await exchange(this.#service.url, requestText(`GET ${path}`));
  }

  async ask(directive: Directive, stream = true): Promise<Wire> {
    const body = chat(scripted(directive), { stream, logit_bias: NO_END });
    const wire = await Wire.open(this.#service.url);
    return wire.send(
      requestText('POST /v1/chat/completions', { Authorization: `Bearer ${this.#key}` }, body),
    );
  }

  /** Resolves when so many generations run. */
  async runs(count: number): Promise<void> {
    const asked = requestText('GET /readyz', { Authorization: `Bearer ${this.#key}` });
    await until(async () => (await exchange(this.#service.url, asked)).body.includes(`"running":${count},`));
  }

  /** A stream of which the first token has come. */
  async begin(directive: Directive): Promise<Wire> {
    const wire = await this.ask(directive);
    await wire.head();
    for (let text = ''; !text.includes('"delta":{"content"');) text += (await wire.chunk()) ?? '';
    return wire;
  }

  signal(name: NodeJS.Signals): void {
    this.#service.child.kill(name);
  }

  /** Sends the first signal and waits until the service has taken it. */
  async stop(name: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    this.signal(name);
    await until(() => this.#service.stderr().includes('"message":"stopping"'));
  }

  /** Sends it again and again until the service ends: one that comes right after the first counts as the first. */
  async insist(name: NodeJS.Signals): Promise<void> {
    let over = false;
    void this.ended.then(() => (over = true));
    await until(() => over || (this.signal(name), false));
  }

  /** Resolves when no engine lives any more. */
  async enginesGone(): Promise<void> {
    await until(async () => (await Promise.all(this.engines.map(isGone))).every(Boolean));
  }

  async runFiles(): Promise<string[]> {
    return await readdir(join(this.#service.home, 'run'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service[Symbol.asyncDispose]();
  }
}

/** Whether a process has ended; one that nobody has waited for yet stays listed as a zombie. */
async function isGone(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0);
  } catch {
    return true;
  }
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return stat.includes(') Z ');
}

test('SIGTERM: what runs is finished, what is new is 503 shutting_down, then exit 0 and no engine is left', async () => {
  await using service = await Running.start();
  using stream = await service.begin({ tokens: 100, tokenMs: 10 });
  using whole = await service.ask({ tokens: 100, tokenMs: 10 }, false);
  await service.runs(2);
  await service.stop();
  using late = await service.ask({});
  const refused = await late.response();
  assertError(refused, 'shutting_down');
  assert.equal(refused.header('retry-after'), '1');
  const readiness = await service.get('/readyz');
  assert.deepEqual([readiness.status, readiness.body], [503, '{"status":"shutting_down","progress":[]}']);
  assert.equal((await service.get('/healthz')).status, 200);
  assert.match(await stream.restOfBody(), /"finish_reason":"stop".*\n\ndata: \[DONE\]\n\n$/);
  assert.match((await whole.response()).body, /"finish_reason":"stop"/);
  assert.equal(await service.ended, 0);
  await service.enginesGone();
  assert.deepEqual(await service.runFiles(), []);
});

test('what is not finished within drainMs ends framed, and the service with 0', async () => {
  await using service = await Running.start(scriptedYaml({}, 'drainMs: 300\n'));
  using stream = await service.begin({ tokens: 9, tokenMs: FOREVER });
  using whole = await service.ask({ tokens: 9, tokenMs: FOREVER }, false);
  await service.runs(2);
  await service.stop();
  assert.equal(assertEndsWith(await stream.restOfBody(), 'shutting_down'), 1);
  assertError(await whole.response(), 'shutting_down');
  assert.equal(await service.ended, 0);
  await service.enginesGone();
});

test('Ctrl-C, which the terminal sends to the engines too, lets what runs be finished', async () => {
  await using service = await Running.start();
  using stream = await service.begin({ tokens: 100, tokenMs: 10 });
  for (const pid of service.engines) process.kill(pid, 'SIGINT');
  await service.stop('SIGINT');
  assert.match(await stream.restOfBody(), /"finish_reason":"stop".*\n\ndata: \[DONE\]\n\n$/);
  assert.equal(await service.ended, 0);
  await service.enginesGone();
});

for (const [first, second, code] of [
  ['SIGTERM', 'SIGTERM', 143],
  ['SIGTERM', 'SIGINT', 130],
] as const) {
  test(`a second signal, ${second}, ends all at once: exit ${code}, and no engine is left`, async () => {
    await using service = await Running.start();
    using stream = await service.begin({ tokens: 9, tokenMs: FOREVER });
    await service.stop(first);
    await service.insist(second);
    assert.equal(await service.ended, code);
    assert.doesNotMatch(await stream.rest(), /\[DONE\]/);
    await service.enginesGone();
  });
}

test('a second signal ends an engine that hangs, too', async () => {
  await using service = await Running.start();
  using stream = await service.begin({ tokens: 9, freezeAfter: 1 });
  await service.stop();
  await service.insist('SIGTERM');
  assert.equal(await service.ended, 143);
  await stream.rest();
  await service.enginesGone();
});

test('a service that is killed with SIGKILL leaves no engine behind, idle or busy', async () => {
  const file = `file: 'scripted:'`;
  await using service = await Running.start(
    `models:\n  - id: test/scripted\n    engine: {${file}}\n  - id: test/idle\n    engine: {${file}}\n`,
  );
  assert.equal(service.engines.length, 2);
  using stream = await service.begin({ tokens: 9, tokenMs: FOREVER });
  service.signal('SIGKILL');
  assert.equal(await service.ended, 'SIGKILL');
  await stream.rest();
  await service.enginesGone();
});

const FILE = process.env.SLUICE_TEST_MODEL;

test(
  'the engine of a real model ends with a killed service, in the middle of a decode',
  { skip: FILE === undefined && 'SLUICE_TEST_MODEL is not set' },
  async () => {
    await using service = await Running.start(
      `models:\n  - id: ${MODEL}\n    engine: {file: ${FILE}, slots: 1, contextTokens: 512, threads: 1}\n`,
    );
    using stream = await service.begin({});
    service.signal('SIGKILL');
    assert.equal(await service.ended, 'SIGKILL');
    await stream.rest();
    await service.enginesGone();
  },
);

test('a service that is told to stop while its model loads, or is fetched, ends with 0', async () => {
  await using loading = await spawnService(scriptedYaml({ loadMs: FOREVER }));
  await until(() => loading.stdout().includes('Loading test/scripted'));
  loading.child.kill('SIGTERM');
  assert.equal(await loading.ended, 0);

  await using hub = await FakeHub.open();
  hub.files.set('tiny.gguf', buildGguf());
  hub.script = [{ stallAfter: 100 }];
  const yaml = 'models:\n  - id: test/model\n    engine: {file: hf:owner/repo/tiny.gguf}\n';
  await using fetching = await spawnService(yaml, { HF_ENDPOINT: hub.endpoint });
  await until(() => hub.fetches.length === 1);
  fetching.child.kill('SIGTERM');
  assert.equal(await fetching.ended, 0);
});
