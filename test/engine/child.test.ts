import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openReplica } from '../../src/engine/client.ts';
import { until } from '../harness.ts';
import { REPLICA } from './replicas.ts';
import { chat, collect, STAYS, textOf } from './requests.ts';
import { ScriptedChild } from './scripted-child.ts';

describe('an engine in a process of its own', () => {
  it('reports loading, then ready with what it serves', async () => {
    await using child = await ScriptedChild.start({ slots: 5, contextTokens: 99 });
    assert.deepEqual(child.reports[0], { event: 'loading', fraction: 0 });
    const ready = child.reports.at(-1);
    assert(ready?.event === 'ready');
    assert.deepEqual([ready.slots, ready.description.contextTokens], [5, 99]);
  });

  it('reports why it cannot start, and exits with 1', async () => {
    await using child = await ScriptedChild.start({ slots: -1 });
    const failed = child.reports.at(-1);
    assert(failed?.event === 'failed');
    assert.match(failed.reason, /slots/);
    assert.deepEqual(await child.ended(), [1, null]);
  });

  it('ends when its standard input does, in the middle of a stream too', async () => {
    await using child = await ScriptedChild.start();
    await using engine = openChild(child);
    const events = engine.generate(chat({ tokenMs: 60_000 }), STAYS)[Symbol.asyncIterator]();
    await events.next();
    await events.next();
    child.process.stdin?.end();
    assert.deepEqual(await child.ended(), [0, null]);
    await assert.rejects(Promise.resolve(events.next()), { code: 'engine_unavailable' });
  });

  it('ends when its standard input does, though its event loop stands still', async () => {
    await using child = await ScriptedChild.start();
    await using engine = openChild(child);
    const events = engine.generate(chat({ freezeAfter: 1 }), STAYS)[Symbol.asyncIterator]();
    await events.next();
    const answers = () => engine.health(AbortSignal.timeout(1000));
    await until(() =>
      answers().then(
        () => false,
        () => true,
      ),
    );
    child.process.stdin?.end();
    assert.deepEqual(await child.ended(), [null, 'SIGKILL']);
  });

  it('finishes what runs on SIGTERM, then exits with 0', async () => {
    await using child = await ScriptedChild.start();
    await using engine = openChild(child);
    const events = engine.generate(chat({ tokens: 20, tokenMs: 10 }), STAYS)[Symbol.asyncIterator]();
    const first = [await events.next(), await events.next()];
    assert(first.every(({ done }) => !done));
    child.process.kill('SIGTERM');
    const rest = await collect({ [Symbol.asyncIterator]: () => events });
    assert.equal(rest.at(-1)?.type, 'end');
    assert.equal(textOf(rest).split(' ').length - 1, 19);
    assert.deepEqual(await child.ended(), [0, null]);
  });

  it('goes on after SIGINT, which a terminal sends to the service and its engines alike', async () => {
    await using child = await ScriptedChild.start();
    await using engine = openChild(child);
    const events = engine.generate(chat({ tokens: 20, tokenMs: 10 }), STAYS)[Symbol.asyncIterator]();
    const first = [await events.next(), await events.next()];
    assert(first.every(({ done }) => !done));
    child.process.kill('SIGINT');
    const rest = await collect({ [Symbol.asyncIterator]: () => events });
    assert.equal(rest.at(-1)?.type, 'end');
    child.process.kill('SIGTERM');
    assert.deepEqual(await child.ended(), [0, null]);
  });

  it('exits with 0 at once on SIGTERM when nothing runs', async () => {
    await using child = await ScriptedChild.start();
    child.process.kill('SIGTERM');
    assert.deepEqual(await child.ended(), [0, null]);
  });
});

function openChild(child: ScriptedChild): ReturnType<typeof openReplica> {
  return openReplica({ ...REPLICA, socketPath: child.socketPath });
}
