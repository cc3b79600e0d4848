import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HttpReplicaClient } from '../../src/replicas/replica-client.ts';
import { until } from '../harness.ts';
import { REPLICA } from '../replicas/replicas.ts';
import { chat, collect, NEVER_ABORTED, textOf } from './requests.ts';
import { ScriptedProcess } from './scripted-process.ts';

describe('an engine process', () => {
  it('reports loading, then ready with its slots and model', async () => {
    await using child = await ScriptedProcess.start({ slots: 5, contextTokens: 99 });
    assert.deepEqual(child.reports[0], { event: 'loading', fraction: 0 });
    const ready = child.reports.at(-1);
    assert(ready?.event === 'ready');
    assert.deepEqual([ready.slots, ready.description.contextTokens], [5, 99]);
  });

  it('reports why it cannot start, and exits with code 1', async () => {
    await using child = await ScriptedProcess.start({ slots: -1 });
    const failed = child.reports.at(-1);
    assert(failed?.event === 'failed');
    assert.match(failed.reason, /slots/);
    assert.deepEqual(await child.exited(), [1, null]);
  });

  it('exits when its standard input closes, even during a stream', async () => {
    await using child = await ScriptedProcess.start();
    await using client = openChild(child);
    const events = client.generate(chat({ tokenMs: 60_000 }), NEVER_ABORTED)[Symbol.asyncIterator]();
    await events.next();
    await events.next();
    child.process.stdin?.end();
    assert.deepEqual(await child.exited(), [0, null]);
    await assert.rejects(Promise.resolve(events.next()), { code: 'engine_unavailable' });
  });

  it('exits when its standard input closes, even if its event loop is blocked', async () => {
    await using child = await ScriptedProcess.start();
    await using client = openChild(child);
    const events = client.generate(chat({ freezeAfter: 1 }), NEVER_ABORTED)[Symbol.asyncIterator]();
    await events.next();
    const checkHealth = () => client.health(AbortSignal.timeout(1000));
    await until(() =>
      checkHealth().then(
        () => false,
        () => true,
      ),
    );
    child.process.stdin?.end();
    assert.deepEqual(await child.exited(), [null, 'SIGKILL']);
  });

  it('completes running requests on SIGTERM, also after a second one, then exits with code 0', async () => {
    await using child = await ScriptedProcess.start();
    await using client = openChild(child);
    const events = client.generate(chat({ tokens: 20, tokenMs: 10 }), NEVER_ABORTED)[Symbol.asyncIterator]();
    const first = [await events.next(), await events.next()];
    assert(first.every(({ done }) => !done));
    // The service sends one, and systemd another one.
    child.process.kill('SIGTERM');
    const next = [await events.next(), await events.next()].flatMap(({ value }) => value ?? []);
    child.process.kill('SIGTERM');
    const rest = [...next, ...(await collect({ [Symbol.asyncIterator]: () => events }))];
    assert.equal(rest.at(-1)?.type, 'end');
    assert.equal(textOf(rest).split(' ').length - 1, 19);
    assert.deepEqual(await child.exited(), [0, null]);
  });

  it('continues after SIGINT, which a terminal sends to the service and its engines', async () => {
    await using child = await ScriptedProcess.start();
    await using client = openChild(child);
    const events = client.generate(chat({ tokens: 20, tokenMs: 10 }), NEVER_ABORTED)[Symbol.asyncIterator]();
    const first = [await events.next(), await events.next()];
    assert(first.every(({ done }) => !done));
    child.process.kill('SIGINT');
    const rest = await collect({ [Symbol.asyncIterator]: () => events });
    assert.equal(rest.at(-1)?.type, 'end');
    child.process.kill('SIGTERM');
    assert.deepEqual(await child.exited(), [0, null]);
  });

  it('exits with code 0 immediately on SIGTERM when it is idle', async () => {
    await using child = await ScriptedProcess.start();
    child.process.kill('SIGTERM');
    assert.deepEqual(await child.exited(), [0, null]);
  });
});

function openChild(child: ScriptedProcess): HttpReplicaClient {
  return new HttpReplicaClient({ ...REPLICA, socketPath: child.socketPath });
}
