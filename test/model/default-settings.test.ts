import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEFAULT_MODEL_ID } from '../../src/config/schema.ts';
import { chat, post, startService } from '../harness.ts';
import { NO_END, ONE_WORD } from '../support/default-model.ts';
import { file, SKIP } from './embedded-engine.ts';

// Other tests use one thread, because several wait for each other on a busy machine.
test(
  'the default model answers with the default number of threads, slots and context tokens',
  SKIP,
  async () => {
    const model = { id: DEFAULT_MODEL_ID, required: true, engine: { file } };
    await using service = await startService(`models: [${JSON.stringify(model)}]\n`);
    const fields = { model: DEFAULT_MODEL_ID, max_tokens: 4, logit_bias: { ...NO_END, ...ONE_WORD } };
    const response = await post(service, '/v1/chat/completions', chat('Hello', fields));
    const body = await response.text();
    assert.equal(response.status, 200, body);
    assert.match(body, /"content":" the the the the"/);
    assert.match(body, /"completion_tokens":4\b/);
  },
);
