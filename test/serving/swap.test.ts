import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { EngineState } from '../../src/replicas/replica.ts';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import { chat, pauseEngine, startService, temporaryFolder, until, type TestService } from '../harness.ts';
import { buildGguf, TINY_METADATA } from '../models/gguf-builder.ts';
import { Management } from '../management.ts';

const [A, B, C] = ['test/a', 'test/b', 'test/c'] as const;

interface Definition {
  keep?: boolean;
  required?: boolean;
  /** Default: a scripted engine with the other fields. */
  file?: string;
  memoryBytes?: number;
  loadMs?: number;
}

interface Settings {
  models: Record<string, Definition>;
  /** Memory for all models. */
  bytes?: number;
  minStayMs?: number;
  more?: string;
}

/** Starts a service whose models need this memory. Waits until the start has settled. */
async function serve({ models, bytes = 100, minStayMs = 0, more = '' }: Settings): Promise<TestService> {
  const definitions = Object.entries(models).map(([id, { keep, required, file, ...engine }]) =>
    JSON.stringify({
      id,
      keep,
      required,
      engine: { file: file ?? `scripted:${JSON.stringify({ ...engine, ownProcess: true })}` },
    }),
  );
  const yaml = `models: [${definitions.join(', ')}]\nengine: {maxMemoryBytes: ${bytes}, minStayMs: ${minStayMs}}\n${more}`;
  const service = await startService(yaml);
  await until(() =>
    Object.keys(models).every((id) => ['ready', 'idle', 'down'].includes(stateOf(service, id).state)),
  );
  return service;
}

function replicaOf({ service }: TestService, id: string) {
  const replica = service.embeddedReplicas.find(({ client }) => client.model === id);
  assert.ok(replica, id);
  return replica;
}

const stateOf = (service: TestService, id: string): EngineState => replicaOf(service, id).state();
const states = (service: TestService, ...ids: string[]) => ids.map((id) => stateOf(service, id).state);
const isWaiting = (service: TestService, id: string): boolean =>
  service.service.router.model(id).overview().waiting > 0;
const waitsFor = (service: TestService, id: string): string => {
  const state = stateOf(service, id);
  return state.state === 'loading' ? (state.waitsFor ?? '') : '';
};

async function ask(
  { url, key }: TestService,
  model: string,
  directive: Directive = { text: model },
  fields = {},
  signal: AbortSignal | null = null,
) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify(chat(scripted(directive), { model, ...fields })),
    signal,
  });
  return { status: response.status, body: await response.text() };
}

/** Returns the models that were unloaded for others, in order. */
function swapsOf(service: TestService): string[] {
  return service
    .log()
    .split('\n')
    .filter((line) => line.includes('"unloading a model to load another one"'))
    .map((line) => (JSON.parse(line) as { model: string }).model);
}

const TWO = { [A]: { memoryBytes: 60 }, [B]: { memoryBytes: 60 } };

test('models that do not fit beside the others start idle, and a request swaps them in', async () => {
  await using service = await serve({ models: { ...TWO, [C]: { memoryBytes: 30, required: true } } });
  const management = await Management.of(service);
  assert.deepEqual(states(service, A, B, C), ['ready', 'idle', 'ready']);
  const { data } = (await (await fetch(`${service.url}/v1/models`)).json()) as {
    data: { id: string; context_length: number }[];
  };
  assert.deepEqual(
    data.map(({ id, context_length: context }) => [id, context]),
    [
      [A, 4096],
      [B, 4096],
      [C, 4096],
    ],
    'a model that was never loaded is listed too',
  );
  const { status, body } = await ask(service, B);
  assert.equal(status, 200, body);
  assert.match(body, /test\/b/);
  assert.deepEqual(states(service, A, B, C), ['idle', 'ready', 'ready'], 'C is not unloaded in vain');
  assert.deepEqual(swapsOf(service), [A]);
  const metrics = await fetch(`${service.url}/metrics`, {
    headers: { authorization: `Bearer ${management.admin}` },
  });
  assert.match(await metrics.text(), /^sluice_model_swaps_total 1$/m);
  assert.equal(replicaOf(service, A).pid, null);
});

test('a model that streams is not unloaded: the request waits for its end, and the stream is whole', async () => {
  await using service = await serve({
    models: TWO,
    more: 'stream: {holdMs: 10, keepAliveMs: 20}\n',
  });
  const management = await Management.of(service);
  using paused = pauseEngine(service);
  const stream = ask(service, A, { tokens: 40 }, { stream: true });
  await until(() => service.service.router.model(A).busy);
  const waiting = ask(service, B, { text: 'swapped' }, { stream: true });
  const reason = `waiting for the requests of \`${A}\` to end`;
  await until(() => waitsFor(service, B) === reason);
  const listed = (await management.call('GET', '/api/models')) as unknown as {
    data: { id: string; state: string; reason: string | null }[];
  };
  const waits = listed.data.find(({ id }) => id === B);
  assert.deepEqual([waits?.state, waits?.reason], ['loading', reason]);
  assert.deepEqual(swapsOf(service), []);
  paused.dispose();
  const [whole, swapped] = await Promise.all([stream, waiting]);
  assert.ok(whole.body.endsWith('data: [DONE]\n\n'));
  assert.equal(whole.body.match(/"content":"[^"]/g)?.length, 40);
  assert.ok(swapped.body.startsWith(': '), 'the waiting stream is kept alive');
  assert.match(swapped.body, /swapped/);
  assert.deepEqual(swapsOf(service), [A]);
});

test('nothing is unloaded for a model that would not fit either, and the error has the numbers', async () => {
  await using service = await serve({ models: { [A]: { memoryBytes: 60 }, [B]: { memoryBytes: 50e6 } } });
  assert.deepEqual(states(service, A, B), ['ready', 'down']);
  const { status, body } = await ask(service, B);
  assert.equal(status, 503);
  assert.match(body, /This model needs 50 MB of memory; 0 MB are available\./);
  assert.match(body, /engine_unavailable/);
  assert.deepEqual([states(service, A, B), swapsOf(service)], [['ready', 'down'], []]);
});

test('a model with `keep` is not unloaded, neither for others nor because it is not used', async () => {
  await using service = await serve({
    models: { [A]: { memoryBytes: 60, keep: true }, [B]: { memoryBytes: 60 } },
  });
  assert.deepEqual(states(service, A, B), ['ready', 'down']);
  assert.equal((await ask(service, B)).status, 503);
  const management = await Management.of(service);
  const response = await fetch(`${service.url}/api/models/load`, {
    method: 'POST',
    headers: { authorization: `Bearer ${management.admin}` },
    body: JSON.stringify({ model: B }),
  });
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  assert.equal(error.code, 'not_enough_memory');
  assert.match(error.message, /It fits after one of these is unloaded: `test\/a`/);
  assert.deepEqual([states(service, A), swapsOf(service)], [['ready'], []]);
});

test('`keep` of an added model can be changed', async () => {
  await using service = await serve({ models: { [A]: { memoryBytes: 60 } } });
  const management = await Management.of(service);
  await management.call('POST', '/api/models/unload', { model: A });
  const added = { id: B, source: 'scripted:{"memoryBytes":60}', keep: true };
  assert.equal((await management.call('POST', '/api/models', added))['keep'], true);
  await until(() => stateOf(service, B).state === 'ready');
  const load = () => management.call('POST', '/api/models/load', { model: A });
  await assert.rejects(load, /not_enough_memory/);
  const changed = await management.call('POST', '/api/models/update', { model: B, keep: false });
  assert.deepEqual([changed['keep'], changed['state']], [false, 'ready']);
  await load();
  await until(() => stateOf(service, A).state === 'ready');
  assert.deepEqual(swapsOf(service), [B]);
  const remote = { id: C, replicas: [{ url: 'http://127.0.0.1:1', dialect: 'vllm' }], keep: true };
  await assert.rejects(management.call('POST', '/api/models', remote), /`keep`/);
});

test('callers who take turns between two models do not make them load for each request', async () => {
  await using service = await serve({ models: TWO, minStayMs: 600_000 });
  // A may not be unloaded yet, so B waits.
  const b = ask(service, B);
  await until(() => waitsFor(service, B) === `waiting for \`${A}\`, which was loaded a moment ago`);
  for (let turn = 0; turn < 5; turn++) assert.equal((await ask(service, A)).status, 200);
  assert.deepEqual(swapsOf(service), []);
  await Management.of(service).then((each) => each.call('POST', '/api/models/unload', { model: A }));
  assert.equal((await b).status, 200);
  assert.deepEqual(swapsOf(service), []);
});

test('requests that wait for a swap are bounded by the queue, and a swap that no request waits for is given up', async () => {
  await using service = await serve({ models: TWO, more: 'queue: {maxRequests: 2}\n' });
  const stop = new AbortController();
  const stream = ask(service, A, { tokens: 100_000, tokenMs: 5 }, {}, stop.signal);
  await until(() => service.service.router.overview().some(({ replicas }) => replicas[0]?.inFlight === 1));
  const leave = new AbortController();
  const waiting = [1, 2].map(() => ask(service, B, {}, {}, leave.signal));
  await until(() => service.service.router.model(B).overview().waiting === 2);
  const refused = await ask(service, B);
  assert.deepEqual([refused.status, /queue_full/.test(refused.body)], [503, true]);
  leave.abort();
  await Promise.allSettled(waiting);
  await until(() => stateOf(service, B).state === 'idle');
  stop.abort();
  await assert.rejects(stream);
  await until(() => !service.service.router.model(A).busy);
  assert.deepEqual([states(service, A, B), swapsOf(service)], [['ready', 'idle'], []]);
});

test('a request that waits longer than the queue allows is refused, and nothing is unloaded for it', async () => {
  await using service = await serve({ models: TWO, minStayMs: 600_000, more: 'queue: {maxWaitMs: 300}\n' });
  const { status, body } = await ask(service, B);
  assert.equal(status, 503);
  assert.match(body, /waited 1 s for this model to be loaded/);
  await until(() => stateOf(service, B).state === 'idle');
  assert.deepEqual([states(service, A), swapsOf(service)], [['ready'], []]);
});

test('requests for two models that are not loaded are both served, one swap after the other', async () => {
  await using service = await serve({ models: { ...TWO, [C]: { memoryBytes: 70 } } });
  assert.deepEqual(states(service, A, B, C), ['ready', 'idle', 'idle']);
  // Nothing is swapped until all requests have arrived.
  using paused = pauseEngine(service);
  const asked = [ask(service, A)];
  await until(() => service.service.router.model(A).busy);
  for (const count of [1, 2])
    for (const model of [B, C]) {
      asked.push(ask(service, model));
      await until(() => service.service.router.model(model).overview().waiting === count);
    }
  paused.dispose();
  const answers = await Promise.all(asked);
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200, 200, 200],
  );
  assert.deepEqual(swapsOf(service), [A, B]);
});

test('an engine that crashes while a swap loads it does not block the others', async () => {
  await using service = await serve({
    models: { [A]: { memoryBytes: 60 }, [B]: { memoryBytes: 60, loadMs: 60_000 } },
  });
  const stop = new AbortController();
  const first = ask(service, B, {}, {}, stop.signal).catch(() => {});
  await until(() => stateOf(service, B).state === 'loading' && replicaOf(service, B).pid !== null);
  const back = ask(service, A);
  await until(() => isWaiting(service, A));
  const { pid } = replicaOf(service, B);
  process.kill(pid ?? 0, 'SIGKILL');
  await until(() => replicaOf(service, B).pid !== pid);
  stop.abort();
  await first;
  assert.equal((await back).status, 200);
  assert.deepEqual(
    [states(service, A, B), swapsOf(service)],
    [
      ['ready', 'idle'],
      [A, B],
    ],
  );
});

test('a model whose engine cannot start unloads others once, not for each request', async () => {
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'strange.gguf');
  await writeFile(file, buildGguf({ metadata: TINY_METADATA }));
  const bytes = 400e6;
  await using service = await serve({ models: { [A]: { memoryBytes: bytes }, [B]: { file } }, bytes });
  assert.deepEqual(states(service, A, B), ['ready', 'idle']);
  for (let each = 0; each < 2; each++) {
    assert.equal((await ask(service, A)).status, 200);
    assert.equal((await ask(service, B)).status, 503);
  }
  assert.deepEqual([states(service, A, B), swapsOf(service)], [['ready', 'down'], [A]]);
});

test('a changed context of an idle model is listed, and does not unload another model', async () => {
  await using service = await serve({ models: { [A]: { memoryBytes: 60 } } });
  const management = await Management.of(service);
  await management.call('POST', '/api/models', { id: B, source: 'scripted:{"memoryBytes":60}' });
  await until(() => stateOf(service, B).state === 'ready');
  assert.equal((await ask(service, A)).status, 200);
  assert.deepEqual(states(service, A, B), ['ready', 'idle']);
  await management.call('POST', '/api/models/update', { model: B, context_tokens: 512 });
  await until(() => service.service.router.model(B).card()?.context_length === 512);
  assert.deepEqual(
    [states(service, A, B), swapsOf(service)],
    [
      ['ready', 'idle'],
      [A, B],
    ],
  );
});

test('an operator can unload or remove a model while it waits for a swap, and its requests are refused', async () => {
  await using service = await serve({ models: { [A]: { memoryBytes: 60 } }, minStayMs: 600_000 });
  const management = await Management.of(service);
  const add = async (id: string) => {
    await management.call('POST', '/api/models', { id, source: 'scripted:{"memoryBytes":60}' });
    await until(() => waitsFor(service, id) !== '');
    await management.call('POST', '/api/models/unload', { model: id });
    assert.equal((await ask(service, id)).status, 503, 'an unloaded model is not loaded for requests');
    await management.call('POST', '/api/models/load', { model: id });
    await until(() => waitsFor(service, id) !== '');
  };
  await add(B);
  await management.call('POST', '/api/models/unload', { model: B });
  assert.deepEqual(states(service, A, B), ['ready', 'unloaded']);
  await add(C);
  await management.call('POST', '/api/models/remove', { model: C });
  assert.equal((await ask(service, C)).status, 404);
  // The victim of a swap can be removed as well.
  await management.call('POST', '/api/models/load', { model: B });
  await until(() => waitsFor(service, B) !== '');
  await management.call('POST', '/api/models/unload', { model: A });
  await until(() => stateOf(service, B).state === 'ready');
  assert.deepEqual([states(service, A), swapsOf(service)], [['unloaded'], []]);
});

test('the service stops while a model waits for a swap', async () => {
  await using service = await serve({ models: TWO, minStayMs: 600_000 });
  const request = ask(service, B);
  request.catch(() => {});
  await until(() => isWaiting(service, B));
});
