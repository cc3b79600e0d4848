import assert from 'node:assert/strict';
import { rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { scripted } from '../../src/engine/scripted/options.ts';
import { chat, scriptedYaml, spawnService, temporaryFolder, until, type ServiceProcess } from '../harness.ts';
import { assertError, exchange, requestText, Wire, type WireResponse } from '../http/wire.ts';
import { Management, type Caller } from '../management.ts';

const LIMIT = 'x-ratelimit-limit-requests';

/** The ways in which a service learns of a new file. */
const WAYS: Record<string, (it: Configured, text: string) => Promise<unknown>> = {
  'on SIGHUP': async (it, text) => {
    await writeFile(it.file, text);
    it.service.child.kill('SIGHUP');
  },
  'when its file is written': (it, text) => writeFile(it.file, text),
  'when another file is put in the place of its own': async (it, text) => {
    await writeFile(`${it.file}.new`, text);
    await rename(`${it.file}.new`, it.file);
  },
};

for (const [name, change] of Object.entries(WAYS)) {
  test(`plans are read again ${name}, and hold for the next request`, async () => {
    // A folder that the file is only linked into is not told of the change: then it is the signal that tells.
    await using it = await Configured.start(plans('{requestsPerMinute: 1000}'), name === 'on SIGHUP');
    const caller = await it.manager.caller();
    using stream = await it.begin(caller);
    assert.equal((await it.ask(caller)).header(LIMIT), '1000');
    await change(it, plans('{requestsPerMinute: 3}'));
    await until(async () => (await it.ask(caller)).header(LIMIT) === '3');
    let answer = await it.ask(caller);
    await until(async () => (answer = await it.ask(caller)).status === 429);
    assertError(answer, 'requests_per_minute');
    // What runs keeps what it was admitted with.
    assert.match((await stream.chunk()) ?? '', /"delta":/);
  });
}

test('a file with a fault changes nothing, and the log says where the fault is', async () => {
  await using it = await Configured.start(plans('{requestsPerMinute: 1000}'));
  const caller = await it.manager.caller();
  const bad: [text: string, told: RegExp][] = [
    [plans('{requestsPerMinute: -1}'), /line 6.*requestsPerMinute/],
    [plans('{requestsPerMinut: 5}'), /line 6.*requestsPerMinut\b/],
    [`${plans('{requestsPerMinute: 5}')}defaultPlan: gone\n`, /defaultPlan/],
    ['plans: {open: {', /line 1/],
  ];
  for (const [text, told] of bad) {
    await writeFile(it.file, text);
    it.service.child.kill('SIGHUP');
    // One fault can be logged twice: for the changed file and for the signal.
    const errors = () => it.lines('configuration not reloaded').map(({ error }) => String(error));
    await until(() => errors().some((error) => told.test(error)));
    const answer = await it.ask(caller);
    assert.deepEqual([answer.status, answer.header(LIMIT)], [200, '1000']);
  }
  // A good one after them is taken.
  await writeFile(it.file, plans('{requestsPerMinute: 500}'));
  await until(async () => (await it.ask(caller)).header(LIMIT) === '500');
});

test('fields that a running service does not take anew are told as waiting for the next start', async () => {
  await using it = await Configured.start(plans('{requestsPerMinute: 1000}'));
  await writeFile(it.file, `${plans('{requestsPerMinute: 900}')}drainMs: 1\nqueue: {maxRequests: 1}\n`);
  it.service.child.kill('SIGHUP');
  await until(() => it.lines('restart the service to apply these fields').length > 0);
  const [line] = it.lines('restart the service to apply these fields');
  assert.deepEqual(line?.fields, ['drainMs', 'queue']);
  const caller = await it.manager.caller();
  assert.equal((await it.ask(caller)).header(LIMIT), '900');
});

test('an account whose plan the configuration has lost may use nothing until it is back', async () => {
  const both = (more: string) => scriptedYaml({}, `plans:\n  open: {}\n${more}defaultPlan: open\n`);
  await using it = await Configured.start(both('  gold: {requestsPerMinute: 1000}\n'));
  const gold = await it.manager.caller('gold');
  const open = await it.manager.caller();
  assert.equal((await it.ask(gold)).status, 200);
  await writeFile(it.file, both(''));
  await until(async () => (await it.ask(gold)).status === 429);
  const refused = await it.ask(gold);
  assertError(refused, 'insufficient_quota');
  assert.equal(refused.header('x-should-retry'), 'false');
  assert.equal(refused.header('retry-after'), null);
  assert.equal((await it.ask(open)).status, 200);
  await until(() => it.service.stderr().includes(gold.accountId));
  const [line] = it.lines(
    'requests of this account are refused because its plan is not in the configuration',
  );
  assert.deepEqual([line?.account, line?.plan], [gold.accountId, 'gold']);
  await writeFile(it.file, both('  gold: {requestsPerMinute: 1000}\n'));
  await until(async () => (await it.ask(gold)).status === 200);
});

/** A file whose default plan stands in line 6. */
function plans(plan: string): string {
  return scriptedYaml({}, `plans:\n  standard: ${plan}\n`);
}

/** A service with a file that the test rewrites. */
class Configured implements AsyncDisposable {
  readonly service: ServiceProcess;
  readonly manager: Management;
  readonly file: string;
  readonly #owned: AsyncDisposable;

  private constructor(service: ServiceProcess, manager: Management, file: string, owned: AsyncDisposable) {
    this.service = service;
    this.manager = manager;
    this.file = file;
    this.#owned = owned;
  }

  static async start(yaml: string, linked = false): Promise<Configured> {
    await using owned = new AsyncDisposableStack();
    const { path } = owned.use(await temporaryFolder());
    const file = join(path, 'sluice.yaml');
    await writeFile(file, yaml);
    const { path: folder } = owned.use(await temporaryFolder());
    const link = join(folder, 'sluice.yaml');
    await symlink(file, link);
    const service = owned.use(await spawnService(yaml, { SLUICE_CONFIG: linked ? link : file }));
    const manager = await Management.ofProcess(service);
    await until(() => service.stdout().includes('Ready.'));
    return new Configured(service, manager, file, owned.move());
  }

  /** The lines of the log that say this. */
  lines(message: string): Record<string, unknown>[] {
    const lines = this.service.stderr().split('\n');
    return lines
      .filter((line) => line.includes(`"message":"${message}"`))
      .map((line) => JSON.parse(line) as Record<string, unknown>); // The log writes objects.
  }

  async ask({ key }: Caller): Promise<WireResponse> {
    return await exchange(this.service.url, text(key, { tokens: 1 }));
  }

  /** A stream that goes on for long, of which the first frame has come. */
  async begin({ key }: Caller): Promise<Wire> {
    const wire = await Wire.open(this.service.url);
    wire.send(text(key, { tokens: 100_000, tokenMs: 50 }, { stream: true, max_tokens: 4000 }));
    await wire.head();
    await wire.chunk();
    return wire;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned[Symbol.asyncDispose]();
  }
}

function text(key: string, directive: Parameters<typeof scripted>[0], fields: object = {}): string {
  const body = chat(scripted(directive), fields);
  return requestText('POST /v1/chat/completions', { Authorization: `Bearer ${key}` }, body);
}
