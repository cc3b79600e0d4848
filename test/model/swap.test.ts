import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chat, post, startService, until } from '../harness.ts';
import { NO_END, ONE_WORD } from '../support/default-model.ts';
import { file, SKIP } from './embedded-engine.ts';

const [A, B] = ['test/a', 'test/b'] as const;
/** Enough for one process of the default model, but not for two. */
const MAX_BYTES = 500e6;

test('engines with real models take turns within the configured memory', SKIP, async () => {
  const models = [A, B].map((id) => JSON.stringify({ id, engine: { file, threads: 1 } }));
  await using service = await startService(
    `models: [${models.join(', ')}]\nengine: {maxMemoryBytes: ${MAX_BYTES}, minStayMs: 0}\n`,
  );
  const replicaOf = (id: string) => {
    const replica = service.service.embeddedReplicas.find(({ client }) => client.model === id);
    assert.ok(replica);
    return replica;
  };
  const states = () => [A, B].map((id) => replicaOf(id).state().state);
  await until(() => states().toSorted().join() === 'idle,ready', states);
  // On a busy machine, either can be the first.
  const [loaded, idle] = states()[0] === 'ready' ? [A, B] : [B, A];
  const before = replicaOf(loaded).pid ?? 0;
  const fields = { model: idle, max_tokens: 3, logit_bias: { ...NO_END, ...ONE_WORD } };
  const response = await post(service, '/v1/chat/completions', chat('Hello', fields));
  const body = await response.text();
  assert.equal(response.status, 200, body);
  assert.match(body, /the the the/);
  assert.equal(replicaOf(loaded).state().state, 'idle');
  assert.throws(() => process.kill(before, 0), { code: 'ESRCH' }, 'the other process has exited');
  await until(() => replicaOf(idle).report().health !== null);
  const { reservedBytes } = replicaOf(idle);
  const { memoryBytes } = replicaOf(idle).report().health ?? {};
  assert.ok(reservedBytes <= MAX_BYTES && (memoryBytes ?? Infinity) <= MAX_BYTES, String(memoryBytes));
});
