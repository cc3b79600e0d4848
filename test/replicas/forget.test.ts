import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpReplica, isUnavailable, openScripted } from './replicas.ts';
import { collect, NEVER_ABORTED, text } from '../engine/requests.ts';

const prompt = 'The same words again. '.repeat(40);
const request = (cacheScope: string) => text({}, { prompts: [prompt], cacheScope });

test('an engine forgets the prompts of one scope', async () => {
  await using replica = await openScripted({ cacheTokens: 10_000 });
  const cachedOf = async (cacheScope: string) => {
    const [started] = await collect(replica.generate(request(cacheScope), NEVER_ABORTED));
    return started?.type === 'started' ? started.cachedTokens : null;
  };
  for (const scope of ['one', 'other']) {
    assert.equal(await cachedOf(scope), 0);
    assert((await cachedOf(scope)) !== 0);
  }
  await replica.forget('one', NEVER_ABORTED);
  assert.equal(await cachedOf('one'), 0);
  assert((await cachedOf('other')) !== 0);
});

test('an engine that does not respond, or does not know the endpoint, is unavailable', async () => {
  await using replica = await HttpReplica.listen((response) => response.writeHead(404).end('{}'), {
    dialect: 'sluice',
  });
  await assert.rejects(replica.client.forget('one', NEVER_ABORTED), isUnavailable);
});

test('other servers are not asked, because they keep prompts in their own way', async () => {
  await using replica = await HttpReplica.listen(() => assert.fail('was asked'), { dialect: 'vllm' });
  await replica.client.forget('one', NEVER_ABORTED);
});
