import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { scripted } from '../support/scripted-engine/directive.ts';
import { encodeVector, readVector } from '../../src/json/vectors.ts';
import { HttpReplica } from '../replicas/replicas.ts';
import { chat, engineHealth, post, requestLog, startService, until, type TestService } from '../harness.ts';
import { Management } from '../management.ts';

const EMBEDDER = 'test/embedder';
const CHAT = 'test/scripted';

const embedded = await startService(
  `
models:
  - id: ${EMBEDDER}
    required: true
    pricing: {prompt: '2'}
    engine: {file: 'scripted:{"dimensions": 4, "contextTokens": 64, "ownProcess": true}'}
  - id: ${CHAT}
    required: true
    engine: {file: 'scripted:{"ownProcess": true}'}
`,
);
after(() => embedded[Symbol.asyncDispose]());

interface Body {
  object: string;
  data: { object: string; index: number; embedding: number[] | string }[];
  model: string;
  usage: object;
  error: { code: string; message: string; param: string | null };
}

async function embed(
  service: TestService,
  body: object,
  headers: Record<string, string> = {},
): Promise<{ status: number; headers: Headers; body: Body }> {
  const response = await post(service, '/v1/embeddings', { model: EMBEDDER, ...body }, headers);
  return { status: response.status, headers: response.headers, body: (await response.json()) as Body };
}

describe('embeddings of an engine', () => {
  test('have the order of the inputs, the usage of the prompt, and the length 1', async () => {
    const { status, body } = await embed(embedded, { input: ['first', 'second text', 'first'] });
    assert.equal(status, 200);
    assert.equal(body.object, 'list');
    assert.equal(body.model, EMBEDDER);
    assert.deepEqual(body.usage, { prompt_tokens: 7, total_tokens: 7 });
    assert.deepEqual(
      body.data.map(({ object, index }) => [object, index]),
      [0, 1, 2].map((index) => ['embedding', index]),
    );
    const [first, second, third] = body.data.map(({ embedding }) => embedding as number[]);
    assert.equal(first?.length, 4);
    assert.ok(Math.abs(Math.hypot(...first) - 1) < 1e-6);
    assert.deepEqual(third, first);
    assert.notDeepEqual(second, first);
  });

  test('are the same in both formats, alone and together', async () => {
    const input = ['a', 'b'];
    const floats = await embed(embedded, { input });
    const base64 = await embed(embedded, { input, encoding_format: 'base64' });
    const alone = await embed(embedded, { input: 'b' });
    const vectors = floats.body.data.map(({ embedding }) => readVector(embedding));
    assert.deepEqual(
      base64.body.data.map(({ embedding }) => readVector(embedding)),
      vectors,
    );
    assert.deepEqual(readVector(alone.body.data[0]?.embedding), vectors[1]);
  });

  test('can have another length if the engine supports it', async () => {
    const { body } = await embed(embedded, { input: 'a', dimensions: 2 });
    assert.equal(body.data[0]?.embedding.length, 2);
  });

  test('accept token IDs', async () => {
    const { status, body } = await embed(embedded, { input: [[1, 2, 3], [4]] });
    assert.equal(status, 200);
    assert.deepEqual(body.usage, { prompt_tokens: 4, total_tokens: 4 });
  });

  test('accept many token IDs, but no more values of other types than usual', async () => {
    const tokens = await embed(embedded, { input: Array.from({ length: 2048 }, () => Array(63).fill(1)) });
    assert.equal(tokens.status, 200);
    assert.deepEqual(tokens.body.usage, { prompt_tokens: 2048 * 63, total_tokens: 2048 * 63 });
    const names = Object.fromEntries(Array.from({ length: 60_000 }, (_, index) => [`n${index}`, 0]));
    const { status, body } = await embed(embedded, { input: 'a', ...names });
    assert.equal(status, 400);
    assert.equal(body.error.code, 'invalid_json');
    assert.match(body.error.message, /more than 50000 JSON values besides numbers/);
  });

  test('are refused if all vectors together have more than 64 MiB', async () => {
    const { status, body } = await embed(embedded, {
      input: Array(193).fill('a'),
      dimensions: 65_536,
      encoding_format: 'base64',
    });
    assert.equal(status, 400);
    assert.equal(body.error.code, 'response_too_large');
    assert.equal((await embed(embedded, { input: 'a' })).status, 200);
  });

  test('are counted and billed by their prompt, and have a receipt', async () => {
    const admin = await Management.of(embedded);
    const { headers } = await embed(embedded, { input: 'twelve chars' });
    const id = headers.get('x-request-id') ?? '';
    const receipt = await admin.receipt(id);
    assert.partialDeepStrictEqual(receipt?.request, {
      state: 'settled',
      endpoint: 'embeddings',
      prompt_tokens: 3,
      completion_tokens: 0,
      cost_usd: '0.000006',
      billed: true,
    });
    assert.partialDeepStrictEqual(receipt, { model_input: { prompts: 1, max_tokens: 0, messages: null } });
    const line = requestLog(embedded).find((entry) => entry['requestId'] === id);
    assert.partialDeepStrictEqual(line, { path: '/v1/embeddings', status: 200, promptTokens: 3 });
  });

  test('are replayed for the same idempotency key, and billed once', async () => {
    const key = { 'idempotency-key': 'once' };
    const first = await embed(embedded, { input: 'once' }, key);
    const second = await embed(embedded, { input: 'once' }, key);
    assert.deepEqual(second.body, first.body);
    assert.equal(second.headers.get('x-sluice-idempotent-replay'), 'true');
    assert.equal(second.headers.get('x-request-id'), first.headers.get('x-request-id'));
  });

  test('of a model that generates no text, so its card has no completion tokens', async () => {
    const response = await fetch(`${embedded.url}/v1/models`);
    const { data } = (await response.json()) as { data: { id: string; max_completion_tokens: number }[] };
    assert.equal(data.find(({ id }) => id === EMBEDDER)?.max_completion_tokens, 0);
  });

  test('are refused for an input that is longer than the context', async () => {
    const { status, body } = await embed(embedded, { input: ['short', 'x'.repeat(400)] });
    assert.equal(status, 400);
    assert.equal(body.error.code, 'context_length_exceeded');
    assert.match(body.error.message, /\b64\b.*\b100\b/);
  });

  test('are refused by a model that generates text, and texts by this one', async () => {
    const { status, body } = await embed(embedded, { input: 'a', model: CHAT });
    assert.equal(status, 400);
    assert.deepEqual([body.error.code, body.error.param], ['unsupported_parameter', 'model']);
    assert.match(body.error.message, /\/v1\/chat\/completions/);
    for (const [path, request] of [
      ['/v1/chat/completions', chat('Hi', { model: EMBEDDER })],
      ['/v1/completions', { model: EMBEDDER, prompt: 'Hi' }],
      ['/v1/responses', { model: EMBEDDER, input: 'Hi' }],
      ['/v1/messages/count_tokens', { model: EMBEDDER, messages: [{ role: 'user', content: 'Hi' }] }],
      ['/v1/messages', { model: EMBEDDER, max_tokens: 5, messages: [{ role: 'user', content: 'Hi' }] }],
    ] as const) {
      const response = await post(embedded, path, request);
      assert.equal(response.status, 400, path);
      assert.match(await response.text(), /\/v1\/embeddings/);
    }
  });

  test('are aborted when the client disconnects, which frees the slot', async () => {
    const stop = new AbortController();
    const slow = scripted({ tokenMs: 1_000_000 });
    const response = fetch(`${embedded.url}/v1/embeddings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${embedded.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: EMBEDDER, input: ['a', 'b', slow] }),
      signal: stop.signal,
    });
    const slots = async () => (await engineHealth(embedded)).slotsInUse;
    await until(async () => (await slots()) === 1);
    stop.abort();
    await assert.rejects(response);
    await until(async () => (await slots()) === 0);
  });

  test('fail if they kill the engine each time, and the next ones are served', async () => {
    const { status, body } = await embed(embedded, { input: ['a', 'b', scripted({ dieAfter: 1 })] });
    // Every start of the engine dies from the same request.
    assert.equal(status, 503);
    assert.equal(body.error.code, 'engine_unavailable');
    await until(async () => (await embed(embedded, { input: 'a' })).status === 200);
  });
});

describe('embeddings of other servers', () => {
  const vectorsFor = (input: readonly unknown[]) => input.map((_, index) => Float32Array.of(index, 1, 0));
  const respond = (data: unknown, usage: object = { prompt_tokens: 5, total_tokens: 5 }) =>
    JSON.stringify({ object: 'list', data, usage });

  /** Starts a server that responds to embeddings with `answer`, and a service in front of it. */
  async function serve(
    answer: (input: unknown[], body: Record<string, unknown>) => { status?: number; text: string },
    more = 'dialect: vllm',
  ) {
    await using owned = new AsyncDisposableStack();
    const server = owned.use(
      await HttpReplica.listen((response, request, body) => {
        if (request.method === 'GET') return response.end('{"data":[]}');
        const { status = 200, text } = answer(body['input'] as unknown[], body);
        response.writeHead(status, { 'content-type': 'application/json' });
        return response.end(text);
      }),
    );
    const service = owned.use(
      await startService(`
models:
  - id: ${EMBEDDER}
    modality: text->embedding
    contextTokens: 512
    replicas: [{url: '${server.url}', ${more}}]
`),
    );
    const kept = owned.move();
    return { server, service, [Symbol.asyncDispose]: () => kept.disposeAsync() };
  }

  const items = (vectors: readonly Float32Array[]) =>
    vectors.map((vector, index) => ({ object: 'embedding', index, embedding: encodeVector(vector) }));

  for (const dialect of ['vllm', 'sglang', 'llama-server', 'openai']) {
    test(`${dialect} gets the inputs, and its vectors are returned`, async () => {
      await using test = await serve(
        (input) => ({ text: respond(items(vectorsFor(input))) }),
        `dialect: ${dialect}`,
      );
      const { status, body } = await embed(test.service, { input: ['a', 'b'], dimensions: 3 });
      assert.equal(status, 200);
      assert.deepEqual(
        body.data.map(({ embedding }) => embedding),
        [
          [0, 1, 0],
          [1, 1, 0],
        ],
      );
      assert.deepEqual(body.usage, { prompt_tokens: 5, total_tokens: 5 });
      assert.deepEqual(test.server.paths, ['/v1/embeddings']);
      assert.deepEqual(test.server.bodies, [
        { model: EMBEDDER, input: ['a', 'b'], encoding_format: 'base64', dimensions: 3 },
      ]);
    });
  }

  test('tgi has none', async () => {
    await using test = await serve(() => ({ text: '{}' }), 'dialect: tgi');
    const { status, body } = await embed(test.service, { input: 'a' });
    assert.equal(status, 400);
    assert.deepEqual([body.error.code, body.error.param], ['unsupported_parameter', 'model']);
    assert.deepEqual(test.server.paths, []);
  });

  test('of a provider that refuses encoding_format are asked for again without it', async () => {
    await using test = await serve(
      (input, body) =>
        'encoding_format' in body
          ? { status: 400, text: '{"error":{"message":"Unknown parameter: \'encoding_format\'"}}' }
          : { text: respond(vectorsFor(input).map((vector) => ({ embedding: [...vector] }))) },
      'dialect: openai',
    );
    assert.equal((await embed(test.service, { input: 'a' })).status, 200);
    assert.equal((await embed(test.service, { input: 'a' })).status, 200);
    assert.equal(test.server.paths.length, 3);
  });

  test('token IDs that a server refuses name the option to turn off', async () => {
    await using test = await serve(
      () => ({ status: 422, text: '{"error":{"message":"invalid type: integer, expected a string"}}' }),
      'dialect: openai',
    );
    const { status, body } = await embed(test.service, { input: [[1, 2]] });
    assert.equal(status, 400);
    assert.match(body.error.message, /check_embedding_ctx_length=False/);
    assert.equal(body.error.param, 'input');
  });

  test('an input that the server finds too long is an error of the caller', async () => {
    for (const [status, message] of [
      [400, "This model's maximum context length is 512 tokens. However, you requested 600 tokens."],
      [413, '`inputs` must have less than 512 tokens. Given: 600'],
      [500, 'input (600 tokens) is too large to process. increase the physical batch size'],
    ] as const) {
      await using test = await serve(() => ({ status, text: JSON.stringify({ error: { message } }) }));
      const { status: found, body } = await embed(test.service, { input: 'a' });
      assert.equal(found, 400, message);
      assert.equal(body.error.code, 'context_length_exceeded');
      assert.match(body.error.message, /512|600/);
    }
  });

  test('a server that lies is not used, and the request is billed once', async () => {
    const lies: readonly ((input: readonly unknown[]) => string)[] = [
      () => respond([]),
      (input) => respond(items(vectorsFor(input)).slice(1)),
      (input) => respond(items(vectorsFor(input).map((vector, index) => vector.subarray(index)))),
      (input) => respond(items(vectorsFor(input).map(() => Float32Array.of(NaN)))),
      () => 'no JSON',
    ];
    for (const lie of lies) {
      const lying = await HttpReplica.listen((response, request, body) =>
        response.end(request.method === 'GET' ? '{"data":[]}' : lie(body['input'] as unknown[])),
      );
      const honest = await HttpReplica.listen((response, request, body) =>
        response.end(
          request.method === 'GET' ? '{"data":[]}' : respond(items(vectorsFor(body['input'] as unknown[]))),
        ),
      );
      await using _ = lying;
      await using __ = honest;
      await using service = await startService(`
models:
  - id: ${EMBEDDER}
    modality: text->embedding
    contextTokens: 512
    replicas: [{url: '${lying.url}', dialect: vllm}, {url: '${honest.url}', dialect: vllm}]
`);
      for (let sent = 0; sent < 4; sent++) {
        const { status, headers, body } = await embed(service, { input: ['a', 'b'] });
        assert.equal(status, 200);
        assert.equal(body.data.length, 2);
        const admin = await Management.of(service);
        const receipt = await admin.receipt(headers.get('x-request-id') ?? '');
        assert.partialDeepStrictEqual(receipt?.request, { prompt_tokens: 5, billed: true });
      }
      assert.ok(lying.paths.length > 0);
    }
  });
});
