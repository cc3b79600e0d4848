import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readRefusedField } from '../../../src/replicas/wire/replica-error.ts';

const read = (status: number, body: object) => readRefusedField(status, JSON.stringify(body));

/** The error of Mistral's API. */
const mistral = (...loc: string[]) => ({
  object: 'error',
  message: {
    detail: [
      { type: 'extra_forbidden', loc: ['body', ...loc], msg: 'Extra inputs are not permitted', input: true },
    ],
  },
  type: 'invalid_request_error',
  param: null,
  code: null,
});

test('a field that the server refused by its name is recognized', () => {
  const openai = {
    message:
      "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    type: 'invalid_request_error',
    param: 'max_tokens',
    code: 'unsupported_parameter',
  };
  assert.equal(read(400, { error: openai }), 'max_tokens');
  assert.equal(read(422, mistral('stream_options', 'include_usage')), 'stream_options');
  assert.equal(read(422, mistral('stream_options')), 'stream_options');
  for (const message of [
    'Unrecognized request argument supplied: stream_options',
    "Unknown parameter: 'stream_options'.",
    "property 'stream_options' is unsupported",
  ]) {
    assert.equal(read(400, { error: { message } }), 'stream_options');
  }
  // vLLM 0.22 and later.
  for (const message of [
    'thinking_token_budget is set but reasoning_config is not configured. Please set --reasoning-parser',
    'thinking_token_budget is not yet supported by the V2 model runner.',
    'thinking_token_budget needs the reasoning start and end strings',
  ]) {
    assert.equal(read(400, { error: { message } }), 'thinking_token_budget');
  }
});

test('other errors name no field, even if they quote text of the caller', () => {
  const quoted = "Unsupported parameter: 'max_tokens'";
  assert.equal(read(400, { error: { message: `Invalid tool name: "${quoted}"` } }), null);
  assert.equal(read(400, { error: { message: 'max_tokens is too large: 9' } }), null);
  assert.equal(read(500, { error: { message: quoted } }), null);
  assert.equal(read(422, mistral('messages', '0', 'stream_options')), null);
  assert.equal(read(422, { detail: [{ type: 'missing', loc: ['body', 'stream_options'], msg: 'm' }] }), null);
  assert.equal(readRefusedField(400, 'stream_options'), null);
});
