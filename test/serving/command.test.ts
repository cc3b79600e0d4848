import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { openDatabase } from '../../src/database/database.ts';
import { ModelTable } from '../../src/serving/model-table.ts';
import type { EngineState } from '../../src/replicas/replica.ts';
import {
  MODEL,
  openService,
  post,
  spawnService,
  startService,
  temporaryFolder,
  until,
  type OpenedService,
  type TestService,
} from '../harness.ts';
import { Management } from '../management.ts';
import type { CommandServerOptions } from '../support/command-server.ts';

const SERVER = join(import.meta.dirname, '../support/command-server.ts');
const ID = 'test/program';

interface Definition extends Partial<CommandServerOptions> {
  id?: string;
  contextTokens?: number;
  command?: object;
}

/** Returns the definition of a model with the program of the tests. */
function modelOf(folder: string, { id = ID, contextTokens, command, ...options }: Definition = {}): string {
  const argument = { listen: '{port}', folder, ...options } satisfies CommandServerOptions;
  const run = [process.execPath, SERVER, JSON.stringify(argument)];
  return JSON.stringify({ id, contextTokens, command: { run, dialect: 'sglang', model: 'm', ...command } });
}

async function folderOf(t: TestContext): Promise<string> {
  const folder = await temporaryFolder();
  t.after(() => folder[Symbol.asyncDispose]());
  return folder.path;
}

function replicaOf({ service }: OpenedService, id = ID) {
  const replica = service.embeddedReplicas.find(({ client }) => client.name.endsWith(`:${id}`));
  assert.ok(replica, id);
  return replica;
}

const stateOf = (service: OpenedService, id = ID): EngineState => replicaOf(service, id).state();

/** Returns the processes of a program that run, or have run and not been waited for. */
const pidsOf = (folder: string): number[] =>
  readdirSync(folder)
    .map(Number)
    .filter((pid) => pid > 0 && isRunning(pid));

function isRunning(pid: number): boolean {
  try {
    // Nobody waits for an orphan in a container without an init process.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

async function complete(service: TestService, prompt = 'count', model = ID): Promise<string> {
  const response = await post(service, '/v1/completions', { model, prompt, max_tokens: 100 });
  const body = (await response.json()) as { choices?: { text: string }[] };
  assert.equal(response.status, 200, JSON.stringify(body));
  return body.choices?.[0]?.text ?? '';
}

/** Whether the program was asked twice here while it was loading. */
const isChecked = (service: OpenedService, path: string): boolean =>
  service.log().split(`loading: ${path}"`).length > 2;

const COUNTED = Array.from({ length: 30 }, (_, index) => ` ${index + 1}`).join('');

test('a program is a replica: it is ready only when its health check is, and gets no secrets', async (t) => {
  const folder = await folderOf(t);
  const gate = join(folder, 'gate');
  const yaml = `models: [${modelOf(folder, { gate, contextTokens: 1024, command: { env: { OWN_CANARY: '' } } })}]`;
  await using opened = await openService(yaml, { SLUICE_CANARY: '', SERVICE_CANARY: '' });
  await until(() => isChecked(opened, '/health'));
  assert.match(opened.log(), /environment: SERVICE_CANARY,OWN_CANARY"/);
  assert.equal(stateOf(opened).state, 'loading');
  writeFileSync(gate, '');
  await until(() => stateOf(opened).state === 'ready');
  const { key } = await opened.service.keys.create({ name: 'test' });
  const service = { ...opened, key: key.reveal() };
  assert.equal(await complete(service), COUNTED);
  const { data } = (await (await fetch(`${opened.url}/v1/models`)).json()) as {
    data: { id: string; context_length: number }[];
  };
  assert.deepEqual(
    data.map((card) => [card.id, card.context_length]),
    [[ID, 1024]],
  );
});

test('a program on a Unix socket', async (t) => {
  const folder = await folderOf(t);
  await using service = await startService(`models: [${modelOf(folder, { listen: '{socket}' })}]`);
  assert.equal(await complete(service), COUNTED);
});

test('readyPath is for a program whose health check responds too early', async (t) => {
  const folder = await folderOf(t);
  const gate = join(folder, 'gate');
  const model = modelOf(folder, {
    gate,
    contextTokens: 1024,
    loadingStatus: 200,
    command: { readyPath: '/v1/models' },
  });
  await using opened = await openService(`models: [${model}]`);
  await until(() => isChecked(opened, '/v1/models'));
  assert.equal(stateOf(opened).state, 'loading');
  writeFileSync(gate, '');
  await until(() => stateOf(opened).state === 'ready');
});

test('a program without a list of models is ready', async (t) => {
  const folder = await folderOf(t);
  const model = modelOf(folder, { models404: true, command: { dialect: 'openai' } });
  await using service = await startService(`models: [${model}]`);
  assert.equal(await complete(service), COUNTED);
});

test('a program that finds its port taken is started again with another one', async (t) => {
  const folder = await folderOf(t);
  const taken = join(folder, 'taken');
  await using service = await startService(`models: [${modelOf(folder, { taken })}]`);
  assert.match(service.log(), /bind: address already in use/);
  assert.equal(await complete(service), COUNTED);
  assert.equal(replicaOf(service).report().restarts, 1);
});

test('a program that exits at once is down with its last lines, and is restarted with growing delays', async (t) => {
  const folder = await folderOf(t);
  const model = modelOf(folder, { exit: ['loading', 'error: no such model', 'bye'] });
  await using service = await openService(`models: [${model}]`);
  const delays = new Set<number>();
  await until(() => {
    const state = stateOf(service);
    if (state.state === 'down' && state.retryInMs !== null) delays.add(state.retryInMs);
    return delays.size === 3;
  });
  assert.deepEqual([...delays], [200, 500, 1000]);
  const state = stateOf(service);
  assert.match(
    state.state === 'down' ? state.reason : '',
    /^the program exited with code 3\n.*\nloading\nerror: no such model\nbye$/,
  );
  const management = await Management.of(service);
  const { data } = (await management.call('GET', '/api/engines')) as {
    data: { output: string[]; name: string }[];
  };
  assert.equal(data[0]?.name, `command:${ID}`);
  assert.ok(data[0].output.includes('error: no such model'));
});

test('a program that does not exist, or may not be executed, is down with the reason and is not started again', async (t) => {
  const folder = await folderOf(t);
  const file = join(folder, 'file');
  writeFileSync(file, '');
  for (const [program, why] of [
    ['no-such-program', 'it does not exist'],
    [file, 'it may not be executed'],
  ] as const) {
    const model = { id: ID, command: { run: [program, '{port}'], dialect: 'vllm' } };
    await using service = await openService(`models: [${JSON.stringify(model)}]`);
    await until(() => stateOf(service).state === 'down');
    assert.deepEqual(stateOf(service), {
      state: 'down',
      reason: `cannot start the program \`${program}\`: ${why}`,
      retryInMs: null,
    });
  }
});

test('the output of a program is bounded in length and rate, and its last lines are kept', async (t) => {
  const folder = await folderOf(t);
  await using service = await startService(`models: [${modelOf(folder, { flood: 4_000_000 })}]`);
  assert.equal(await complete(service), COUNTED);
  await until(() => service.log().includes('lines of output left out'));
  assert.ok(service.log().length < 200_000, `${service.log().length} characters`);
  const { output } = replicaOf(service).report();
  assert.ok(output.length <= 30 && output.every((line) => line.length <= 2000), `${output.length}`);
});

test('unloading ends the program, its children and what ignores SIGTERM', async (t) => {
  const folder = await folderOf(t);
  const model = modelOf(folder, { forks: true, ignoresTerm: true });
  await using service = await startService(`models: [${model}]`);
  await until(() => pidsOf(folder).length === 2);
  const management = await Management.of(service);
  await replicaOf(service).unload();
  assert.deepEqual(pidsOf(folder), []);
  await management.call('POST', '/api/models/load', { model: ID });
  await until(() => stateOf(service).state === 'ready');
  assert.equal(await complete(service), COUNTED);
});

for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
  test(`no process of a program outlives the service that ${signal} ends`, async (t) => {
    const folder = await folderOf(t);
    await using service = await spawnService(
      `models: [${modelOf(folder, { forks: true, ignoresTerm: true })}]`,
    );
    await until(() => pidsOf(folder).length === 2);
    service.child.kill(signal);
    await service.ended;
    await until(() => pidsOf(folder).length === 0);
  });
}

test('no process of a program outlives its guardian', async (t) => {
  const folder = await folderOf(t);
  await using service = await startService(
    `models: [${modelOf(folder, { forks: true, ignoresTerm: true })}]`,
  );
  await until(() => pidsOf(folder).length === 2);
  const before = pidsOf(folder);
  process.kill(replicaOf(service).pid ?? NaN, 'SIGKILL');
  await until(() => before.every((pid) => !isRunning(pid)));
  await until(() => stateOf(service).state === 'ready');
});

/** Streams a response, and calls `onFive` in the middle. Returns its text. */
async function stream(service: TestService, onFive: () => void): Promise<string> {
  const request = { model: ID, prompt: 'count', stream: true, max_tokens: 100 };
  const response = await post(service, '/v1/completions', request);
  assert.ok(response.body);
  let body = '';
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    if (!body.includes('" 5"') && (body + part).includes('" 5"')) onFive();
    body += part;
  }
  assert.ok(body.endsWith('data: [DONE]\n\n'), body.slice(-1000));
  const frames = body.split('\n\n').filter((frame) => frame.startsWith('data: {'));
  return frames
    .map((frame) => (JSON.parse(frame.slice(6)) as { choices?: { text: string }[] }).choices?.[0]?.text ?? '')
    .join('');
}

test('a stream continues after its program was killed', async (t) => {
  const folder = await folderOf(t);
  await using service = await startService(`models: [${modelOf(folder)}]`);
  const text = await stream(service, () => {
    for (const pid of pidsOf(folder)) process.kill(pid, 'SIGKILL');
  });
  assert.equal(text, COUNTED);
  assert.equal(replicaOf(service).report().restarts, 1);
});

for (const stop of ['restart', 'unload'] as const) {
  test(`a running response ends before its program gets the signal of ${stop}`, async (t) => {
    const folder = await folderOf(t);
    // No other replica could continue a response of this dialect.
    const model = modelOf(folder, { command: { dialect: 'openai' } });
    await using service = await startService(`models: [${model}]`);
    const [pid = NaN] = pidsOf(folder);
    assert.equal(await stream(service, () => void replicaOf(service)[stop]()), COUNTED);
    await until(() => !isRunning(pid));
  });
}

test('the memory gate swaps programs and embedded models, and learns the memory of a program', async (t) => {
  const folder = await folderOf(t);
  const program = (id: string, memoryBytes?: number) => modelOf(folder, { id, command: { memoryBytes } });
  const embedded = JSON.stringify({
    id: MODEL,
    engine: { file: `scripted:${JSON.stringify({ memoryBytes: 6e8 })}` },
  });
  const models = [program('test/a', 6e8), program('test/b', 6e8), embedded, program('test/learned')];
  await using service = await startService(
    `models: [${models.join(', ')}]\nengine: {maxMemoryBytes: 1000000000, minStayMs: 0}`,
  );
  const settled = ['test/a', 'test/b', MODEL, 'test/learned'];
  await until(() => settled.every((id) => ['ready', 'idle'].includes(stateOf(service, id).state)));
  for (const id of ['test/b', 'test/a', 'test/b'])
    assert.equal(await complete(service, 'count', id), COUNTED);
  assert.deepEqual(
    ['test/a', 'test/b', MODEL].map((id) => stateOf(service, id).state),
    ['idle', 'ready', 'idle'],
  );
  const { status } = await post(service, '/v1/completions', { model: MODEL, prompt: 'hello', max_tokens: 2 });
  assert.equal(status, 200);
  assert.equal(stateOf(service, 'test/b').state, 'idle');
  // Node takes tens of megabytes.
  const learned = replicaOf(service, 'test/learned');
  await until(() => learned.reservedBytes > 2e7);
  await learned.sleep();
  assert.equal(learned.reservedBytes, 0);
  assert.equal(await complete(service, 'count', 'test/learned'), COUNTED);
  assert.ok(learned.reservedBytes > 2e7, 'it is known before the second start');
});

test('a model in the database cannot name a program', async (t) => {
  const folder = await folderOf(t);
  await using service = await startService();
  const management = await Management.of(service);
  const command = { run: ['touch', join(folder, 'canary'), '{port}'], dialect: 'vllm' };
  for (const [path, body] of [
    ['/api/models', { id: 'test/x', command }],
    ['/api/models', { id: 'test/x', replicas: [{ url: 'http://127.0.0.1:9', dialect: 'vllm' }], command }],
  ] as const) {
    await assert.rejects(management.call('POST', path, body), /400/);
  }
  await using database = await openDatabase({ home: service.home, url: null });
  const definition = JSON.stringify({ id: 'test/x', command });
  await database.kysely
    .insertInto('models')
    .values({ id: 'test/x', node: '', definition, loaded: 1, created_at: 1 })
    .execute();
  const { models } = await new ModelTable(database, '').read();
  assert.deepEqual(
    models.map(({ config, fault }) => [config.id, config.command, fault]),
    [['test/x', undefined, '`command` is only for models in the configuration file']],
  );
  assert.equal(existsSync(join(folder, 'canary')), false);
});
