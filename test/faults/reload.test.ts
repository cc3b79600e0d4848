import assert from 'node:assert/strict';
import { mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { scripted } from '../support/scripted-engine/directive.ts';
import { chat, scriptedYaml, spawnService, temporaryFolder, until, type ServiceProcess } from '../harness.ts';
import { assertError, exchange, requestText, Wire, type WireResponse } from '../http/wire.ts';
import { Management, type Caller } from '../management.ts';

const LIMIT = 'x-ratelimit-limit-requests';

/** The events that reload the configuration. */
const EVENTS: Record<string, (target: ReloadTest, text: string) => Promise<unknown>> = {
  'when the file is written': (target, text) => writeFile(target.file, text),
  'when the file is replaced': async (target, text) => {
    await writeFile(`${target.file}.new`, text);
    await rename(`${target.file}.new`, target.file);
  },
  // As in a mounted ConfigMap of Kubernetes.
  'when a link to its directory is replaced': async (target, text) => {
    const next = `${target.link}-next`;
    await mkdir(next);
    await writeFile(join(next, 'sluice.yaml'), text);
    await symlink(next, `${target.link}.new`);
    await rename(`${target.link}.new`, target.link);
  },
};

const INITIAL = plans('{requestsPerMinute: 1000}');

describe('a running service', () => {
  let shared: ReloadTest;
  before(async () => {
    shared = await ReloadTest.start(INITIAL);
  });
  after(() => shared[Symbol.asyncDispose]());

  for (const [name, change] of Object.entries(EVENTS)) {
    test(`plans are reloaded ${name} and apply to the next request`, async () => {
      const it = shared;
      const caller = await it.reset();
      using stream = await it.stream(caller);
      assert.equal((await it.complete(caller)).header(LIMIT), '1000');
      await change(it, plans('{requestsPerMinute: 3}'));
      await until(async () => (await it.complete(caller)).header(LIMIT) === '3');
      let response = await it.complete(caller);
      await until(async () => (response = await it.complete(caller)).status === 429);
      assertError(response, 'requests_per_minute');
      // Running requests keep their limits.
      assert.match((await stream.chunk()) ?? '', /"delta":/);
    });
  }

  test('the configuration is reloaded on SIGHUP', async () => {
    await using it = await ReloadTest.start(INITIAL);
    assert.deepEqual(it.lines('configuration reloaded'), []);
    it.service.child.kill('SIGHUP');
    await until(() => it.lines('configuration reloaded').length === 1);
  });

  test('an invalid file changes nothing, and the log has the position of the error', async () => {
    const it = shared;
    const caller = await it.reset();
    const invalid: [text: string, logged: RegExp][] = [
      [plans('{requestsPerMinute: -1}'), /line 6.*requestsPerMinute/],
      [plans('{requestsPerMinut: 5}'), /line 6.*requestsPerMinut\b/],
      [`${plans('{requestsPerMinute: 5}')}defaultPlan: gone\n`, /defaultPlan/],
      ['plans: {open: {', /line 1/],
    ];
    for (const [text, logged] of invalid) {
      await writeFile(it.file, text);
      it.service.child.kill('SIGHUP');
      // An error can be logged twice: for the changed file and for the signal.
      const errors = () => it.lines('configuration not reloaded').map(({ error }) => String(error));
      await until(() => errors().some((error) => logged.test(error)));
      const response = await it.complete(caller);
      assert.deepEqual([response.status, response.header(LIMIT)], [200, '1000']);
    }
    // A valid file is applied again.
    await writeFile(it.file, plans('{requestsPerMinute: 500}'));
    await until(async () => (await it.complete(caller)).header(LIMIT) === '500');
  });

  test('changed fields that need a restart are logged', async () => {
    const it = shared;
    await it.reset();
    await writeFile(it.file, `${plans('{requestsPerMinute: 900}')}drainMs: 1\nqueue: {maxRequests: 1}\n`);
    it.service.child.kill('SIGHUP');
    await until(() => it.lines('restart the service to apply these fields').length > 0);
    const [line] = it.lines('restart the service to apply these fields');
    assert.deepEqual(line?.fields, ['drainMs', 'queue']);
    const caller = await it.manager.caller();
    assert.equal((await it.complete(caller)).header(LIMIT), '900');
  });

  test('requests of accounts whose plan was removed are refused until it is restored', async () => {
    const both = (more: string) => scriptedYaml({}, `plans:\n  open: {}\n${more}defaultPlan: open\n`);
    await using it = await ReloadTest.start(both('  gold: {requestsPerMinute: 1000}\n'));
    const gold = await it.manager.caller('gold');
    const open = await it.manager.caller();
    assert.equal((await it.complete(gold)).status, 200);
    await writeFile(it.file, both(''));
    await until(async () => (await it.complete(gold)).status === 429);
    const refused = await it.complete(gold);
    assertError(refused, 'insufficient_quota');
    assert.equal(refused.header('x-should-retry'), 'false');
    assert.equal(refused.header('retry-after'), null);
    assert.equal((await it.complete(open)).status, 200);
    // Other lines have the ID of the account too.
    const warnings = () =>
      it.lines('requests of this account are refused because its plan is not in the configuration');
    await until(() => warnings().length > 0);
    const [line] = warnings();
    assert.deepEqual([line?.account, line?.plan], [gold.accountId, 'gold']);
    await writeFile(it.file, both('  gold: {requestsPerMinute: 1000}\n'));
    await until(async () => (await it.complete(gold)).status === 200);
  });
});

/** Returns a configuration with its default plan in line 6. */
function plans(plan: string): string {
  return scriptedYaml({}, `plans:\n  standard: ${plan}\n`);
}

/** A service with a configuration file that tests change. */
class ReloadTest implements AsyncDisposable {
  readonly service: ServiceProcess;
  readonly manager: Management;
  /** A symbolic link to the directory of the file. */
  readonly link: string;
  readonly #owned: AsyncDisposable;

  private constructor(service: ServiceProcess, manager: Management, link: string, owned: AsyncDisposable) {
    this.service = service;
    this.manager = manager;
    this.link = link;
    this.#owned = owned;
  }

  static async start(yaml: string): Promise<ReloadTest> {
    await using owned = new AsyncDisposableStack();
    const { path } = owned.use(await temporaryFolder());
    const [folder, link] = [join(path, 'first'), join(path, 'current')];
    await mkdir(folder);
    await symlink(folder, link);
    await writeFile(join(link, 'sluice.yaml'), yaml);
    const service = owned.use(await spawnService(yaml, { SLUICE_CONFIG: join(link, 'sluice.yaml') }));
    const manager = await Management.ofProcess(service);
    await until(() => service.stdout().includes('Ready.'));
    return new ReloadTest(service, manager, link, owned.move());
  }

  get file(): string {
    return join(this.link, 'sluice.yaml');
  }

  /** Writes the file `INITIAL` and waits until it applies. Resolves with a caller. */
  async reset(): Promise<Caller> {
    const caller = await this.manager.caller();
    await writeFile(this.file, INITIAL);
    await until(async () => (await this.complete(caller)).header(LIMIT) === '1000');
    return caller;
  }

  /** Returns the log lines with this message. */
  lines(message: string): Record<string, unknown>[] {
    const lines = this.service.stderr().split('\n');
    return lines
      .filter((line) => line.includes(`"message":"${message}"`))
      .map((line) => JSON.parse(line) as Record<string, unknown>); // The log writes objects.
  }

  async complete({ key }: Caller): Promise<WireResponse> {
    return await exchange(this.service.url, text(key, { tokens: 1 }));
  }

  /** Opens a long stream and waits for its first frame. */
  async stream({ key }: Caller): Promise<Wire> {
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
