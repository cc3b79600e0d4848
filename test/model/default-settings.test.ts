import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { DEFAULT_MODEL_ID } from '../../src/config/schema.ts';
import { chat, post, startService, type TestService } from '../harness.ts';
import { NO_END, ONE_WORD } from '../support/default-model.ts';
import { file, SKIP } from './embedded-engine.ts';

// Other tests use one thread, because several wait for each other on a busy machine.
describe('with the default number of threads, slots and context tokens', SKIP, () => {
  let service: TestService;

  before(async () => {
    const model = { id: DEFAULT_MODEL_ID, required: true, engine: { file } };
    service = await startService(`models: [${JSON.stringify(model)}]\n`);
  });

  after(() => service[Symbol.asyncDispose]());

  test('the default model answers', async () => {
    const fields = { model: DEFAULT_MODEL_ID, max_tokens: 4, logit_bias: { ...NO_END, ...ONE_WORD } };
    const response = await post(service, '/v1/chat/completions', chat('Hello', fields));
    const body = await response.text();
    assert.equal(response.status, 200, body);
    assert.match(body, /"content":" the the the the"/);
    assert.match(body, /"completion_tokens":4\b/);
  });

  test(
    'its process takes less than 600 MB',
    { skip: process.platform !== 'linux' && 'reads /proc' },
    async () => {
      const [replica] = service.service.embeddedReplicas;
      const memory = await readFile(`/proc/${replica?.pid}/smaps_rollup`, 'utf8');
      const residentBytes = Number(/^Rss: +(\d+) kB/m.exec(memory)?.[1]) * 1024;
      // Some CPUs need a copy of the weights in their own layout, and some systems use large pages: 360 to 490 MB.
      assert(residentBytes < 600e6, memory);
    },
  );
});
