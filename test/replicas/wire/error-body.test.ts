import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ERRORS, ServiceError, type ErrorCode } from '../../../src/core/errors.ts';
import { errorBody } from '../../../src/core/error-body.ts';
import { isAccessDenied, readErrorBody } from '../../../src/replicas/wire/replica-error.ts';

test('an error body always has all four fields', () => {
  const error = new ServiceError('invalid_value', "'n' must be 1 to 16.", {
    param: 'n',
    cause: new Error('secret'),
  });
  assert.equal(
    errorBody(error),
    `{"error":{"message":"'n' must be 1 to 16.","type":"invalid_request_error","param":"n","code":"invalid_value"}}`,
  );
  assert.match(errorBody(new ServiceError('internal_error', 'x')), /"param":null,"code":"internal_error"/);
});

test('a 400 of a Sluice engine keeps its code, message and param', () => {
  for (const code of (Object.keys(ERRORS) as ErrorCode[]).filter((name) => ERRORS[name][0] === 400)) {
    const error = new ServiceError(code, 'A message.', { param: 'messages[2].content' });
    const read = readErrorBody(400, errorBody(error));
    assert.deepEqual([read.code, read.message, read.param], [code, 'A message.', 'messages[2].content']);
  }
});

test('a prompt that is too long is context_length_exceeded in every dialect', () => {
  const bodies: [number, object][] = [
    [400, { error: { message: 'x', code: 'context_length_exceeded' } }],
    [400, { error: { code: 400, type: 'exceed_context_size_error', message: 'x', n_ctx: 8 } }],
    [500, { error: { code: 500, message: 'the request exceeds the available context size' } }],
    [
      400,
      {
        object: 'error',
        message: "This model's maximum context length is 8 tokens. However, you requested 9",
        code: 400,
      },
    ],
    [400, { message: "The input (9 tokens) is longer than the model's context length (8 tokens)." }],
    [
      422,
      {
        error: 'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8. Given: 9',
        error_type: 'validation',
      },
    ],
    [422, { error: 'Input validation error: `inputs` must have less than 8 tokens. Given: 9' }],
  ];
  for (const [status, body] of bodies) {
    assert.equal(
      readErrorBody(status, JSON.stringify(body)).code,
      'context_length_exceeded',
      JSON.stringify(body),
    );
  }
});

test('errors that only the operator can fix are not client errors', () => {
  for (const status of [401, 403, 404, 405, 408, 429, 501, 502, 503, 504]) {
    const error = readErrorBody(status, '{"error":{"message":"key sk-marked is wrong"}}');
    assert.equal(error.code, 'engine_unavailable');
    assert.equal(error.retryAfterMs, 1000);
    assert.ok(!error.message.includes('marked'));
  }
  const broken = readErrorBody(500, '{"error":{"message":"CUDA error at /src/x.cu"}}');
  assert.equal(broken.code, 'internal_error');
  assert.ok(!broken.message.includes('CUDA'));
});

const redacted = (message: string): string =>
  readErrorBody(400, JSON.stringify({ error: { message } })).message;

test('addresses, hosts, paths and keys are removed from messages', () => {
  const secrets = [
    'http://10.1.2.3:8000/v1',
    '10.1.2.3:8000',
    'gpu-7.internal:8000',
    'localhost',
    '/opt/models/x.gguf',
    '~/models/x',
    'C:\\models\\x',
    'sk-abcdefgh12345',
  ];
  for (const secret of secrets) {
    const message = redacted(`top_k of ns/m is wrong (see ${secret} for 0.5/2)`);
    assert.match(message, /^top_k of ns\/m is wrong \(see …/, secret);
    assert.ok(!message.includes(secret.slice(0, 8)), message);
  }
  assert.equal(redacted('a\n  b\ud800'), 'a b\ufffd');
  assert.ok(redacted('x'.repeat(10_000)).length <= 501);
});

test('a long message is shortened at a word, so that no part of a secret stays', () => {
  for (const secret of [
    'sk-abcdefgh12345',
    'Bearer abcdefgh12345',
    'http://10.1.2.3/',
    'gpu-7.internal:8000',
  ]) {
    for (let before = 1970; before < 2010; before++) {
      // What is removed makes the message shorter than the limit.
      const message = redacted(
        `${'/a/b '.repeat(before / 5)}${' '.repeat(before % 5)}${secret} ${'x '.repeat(500)}`,
      );
      assert.doesNotMatch(message, /abc|10\.|gpu|htt/, message);
    }
  }
  assert.equal(redacted(`bad request: ${'a-'.repeat(5000)}`), 'bad request: …');
  assert.equal(
    redacted(`bad ${'word '.repeat(400)}(parameter=input, value=${'x'.repeat(5000)})`).length,
    501,
  );
});

test('the time for a message of a megabyte does not grow with the square of its length', () => {
  const units = [
    'a-',
    'a.',
    '1.',
    './a/',
    '/',
    'a:/',
    ' (parameter=a, value=',
    'sk-',
    'A:',
    '{',
    'exceeds ',
    ' ',
    '\ud83d\ude00',
  ];
  // With the square, each of them would take minutes.
  for (const unit of units) assert.ok(redacted(unit.repeat(1_000_000 / unit.length)).length <= 501);
});

test('a body without a message becomes an error with a message', () => {
  for (const body of ['', 'Bad Request', '[]', 'null', '{}', '{"error":{}}', '{"detail":[{"loc":[]}]}']) {
    const error = readErrorBody(400, body);
    assert.equal(error.code, 'invalid_value');
    assert.ok(error.message.length > 10);
    assert.equal(error.param, null);
  }
  assert.equal(readErrorBody(400, '{"error":{"message":"m","param":"/etc/passwd and more"}}').param, null);
});

test('a server that was started without tool calls causes a 400 that names the options to start it with', () => {
  const vllm = (message: string) => ({ error: { message, type: 'BadRequestError', param: null, code: 400 } });
  const llama = (message: string) => ({ error: { code: 500, message, type: 'server_error' } });
  const sglang = {
    object: 'error',
    message: 'Internal server error: Unsupported tool_call_parser: None',
    type: 'InternalServerError',
    param: null,
    code: 500,
  };
  const flags = '`--enable-auto-tool-choice` and `--tool-call-parser`';
  for (const [status, body, options] of [
    [
      400,
      vllm('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
      flags,
    ],
    [400, vllm('tool_choice="required" requires --tool-call-parser to be set'), flags],
    [400, vllm('tool_choice=function "f" requires --tool-call-parser to be set'), flags],
    [500, sglang, '`--tool-call-parser`'],
    [500, llama('tools param requires --jinja flag'), '`--jinja`'],
    [500, llama('tool_choice param requires --jinja flag'), '`--jinja`'],
  ] as const) {
    const error = readErrorBody(status, JSON.stringify(body));
    assert.deepEqual([error.status, error.code, error.param], [400, 'unsupported_parameter', 'tools']);
    assert.equal(
      error.message,
      `\`tools\` is not enabled at the engine of this model. The operator must start the engine with ${options}.`,
    );
  }
});

test('the log names what the operator has to fix: the key, the access or the credit', () => {
  for (const [status, body, cause] of [
    [401, { error: { code: 'invalid_api_key' } }, 'refused the API key with status 401 (invalid_api_key)'],
    [402, {}, 'reported missing credit with status 402'],
    [403, {}, 'denied access with status 403'],
    [
      429,
      { error: { code: 'insufficient_quota' } },
      'reported missing credit with status 429 (insufficient_quota)',
    ],
  ] as const) {
    const text = JSON.stringify(body);
    const error = readErrorBody(status, text);
    assert.equal(error.code, 'engine_unavailable');
    assert.ok(error.cause instanceof Error && error.cause.message.endsWith(cause), String(error.cause));
    assert.equal(isAccessDenied(status, text), true);
  }
  for (const status of [400, 404, 429, 500, 503]) assert.equal(isAccessDenied(status, '{}'), false);
});

test('a prompt that the moderation of a provider refused is an error of the caller', () => {
  const metadata = { reasons: ['violence'], flagged_input: 'x', provider_name: 'P' };
  const body = JSON.stringify({ error: { code: 403, message: 'Your input was flagged', metadata } });
  assert.deepEqual([readErrorBody(403, body).code, isAccessDenied(403, body)], ['invalid_value', false]);
});

test('messages in arrays, and the field that FastAPI refused, are read', () => {
  const gemini = [{ error: { code: 400, message: 'Unknown name "x"', status: 'INVALID_ARGUMENT' } }];
  assert.equal(readErrorBody(400, JSON.stringify(gemini)).message, 'Unknown name "x"');
  const detail = [{ type: 'extra_forbidden', loc: ['body', 'seed'], msg: 'Extra inputs are not permitted' }];
  for (const body of [{ detail }, { object: 'error', message: { detail } }]) {
    assert.equal(readErrorBody(422, JSON.stringify(body)).message, 'seed: Extra inputs are not permitted');
  }
});
