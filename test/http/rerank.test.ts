import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { scripted } from '../support/scripted-engine/directive.ts';
import { testDatabases } from '../support/servers.ts';
import { HttpReplica } from '../replicas/replicas.ts';
import { chat, engineHealth, post, startService, until, type TestService } from '../harness.ts';
import { Management } from '../management.ts';

const RANKER = 'test/ranker';
const CHAT = 'test/scripted';

const embedded = await startService(`
models:
  - id: ${RANKER}
    required: true
    engine: {file: 'scripted:{"ranks": true, "contextTokens": 64, "ownProcess": true}'}
  - id: ${CHAT}
    required: true
    engine: {file: 'scripted:{}'}
`);
after(() => embedded[Symbol.asyncDispose]());

interface Body {
  id: string;
  model: string;
  results: { index: number; relevance_score: number; document?: { text: string } }[];
  usage: object;
  error: { code: string; message: string; param: string | null };
}

const QUERY = 'red gate';
const DOCUMENTS = ['a blue door', 'the red gate', 'a red door'];

async function rank(
  service: TestService,
  body: object = {},
  { path = '/v1/rerank', headers = {} }: { path?: string; headers?: Record<string, string> } = {},
): Promise<{ status: number; headers: Headers; body: Body }> {
  const request = { model: RANKER, query: QUERY, documents: DOCUMENTS, ...body };
  const response = await post(service, path, request, headers);
  return { status: response.status, headers: response.headers, body: (await response.json()) as Body };
}

const order = ({ results }: Body) => results.map(({ index }) => index);

describe('a ranking of an engine', () => {
  test('has the scores, highest first, and the tokens of the query with each document', async () => {
    for (const path of ['/v1/rerank', '/v1/rerank/', '/v2/rerank', '/v2/%72erank']) {
      const { status, headers, body } = await rank(embedded, {}, { path });
      assert.equal(status, 200, path);
      const { id, ...rest } = body;
      assert.equal(id, headers.get('x-request-id'));
      assert.deepEqual(rest, {
        model: RANKER,
        results: [
          { index: 1, relevance_score: 1 },
          { index: 2, relevance_score: 0.5 },
          { index: 0, relevance_score: 0 },
        ],
        // 2 for the query, and 3 for each document.
        usage: { prompt_tokens: 15, total_tokens: 15 },
        meta: { tokens: { input_tokens: 15 } },
      });
    }
  });

  test('has the first `top_n` results, and documents if they are asked for, in both forms', async () => {
    const documents = [{ text: 'a red door', id: 7 }, 'a blue door', { text: 'the red gate' }];
    const { body } = await rank(embedded, { documents, top_n: 2, return_documents: true });
    assert.deepEqual(body.results, [
      { index: 2, relevance_score: 1, document: { text: 'the red gate' } },
      { index: 0, relevance_score: 0.5, document: { text: 'a red door' } },
    ]);
    assert.deepEqual(order((await rank(embedded, { top_n: 100 })).body), [1, 2, 0]);
  });

  test('keeps the order of documents with equal scores', async () => {
    assert.deepEqual(order((await rank(embedded, { documents: ['b', 'a', 'c', 'a'] })).body), [0, 1, 2, 3]);
  });

  test('is refused with the path of a wrong field', async () => {
    for (const [fields, code, param] of [
      [{ query: '' }, 'invalid_value', 'query'],
      [{ query: null }, 'missing_required_parameter', 'query'],
      [{ documents: null }, 'missing_required_parameter', 'documents'],
      [{ documents: 'a' }, 'invalid_type', 'documents'],
      [{ documents: [] }, 'invalid_value', 'documents'],
      [{ documents: Array(2049).fill('a') }, 'invalid_value', 'documents'],
      [{ documents: ['a', ''] }, 'invalid_value', 'documents[1]'],
      [{ documents: ['a', 5] }, 'invalid_type', 'documents[1]'],
      [{ documents: [{ image: 'x' }] }, 'invalid_type', 'documents[0].text'],
      [{ documents: [null] }, 'invalid_type', 'documents[0].text'],
      [{ top_n: 0 }, 'invalid_value', 'top_n'],
      [{ return_documents: 1 }, 'invalid_type', 'return_documents'],
      [{ documents: ['a', 'x'.repeat(400)] }, 'context_length_exceeded', 'documents'],
    ] as const) {
      const { status, body } = await rank(embedded, fields);
      assert.deepEqual([status, body.error.code, body.error.param], [400, code, param]);
    }
  });

  test('notes that long documents are not truncated', async () => {
    const { headers } = await rank(embedded, { max_tokens_per_doc: 10 });
    const admin = await Management.of(embedded);
    const receipt = await admin.receipt(headers.get('x-request-id') ?? '');
    assert.partialDeepStrictEqual(receipt, {
      model_input: { prompts: 3, notes: [{ path: 'max_tokens_per_doc', what: 'ignored' }] },
    });
  });

  test('is only for rerankers, which serve nothing else', async () => {
    const { status, body } = await rank(embedded, { model: CHAT });
    assert.deepEqual([status, body.error.code, body.error.param], [400, 'unsupported_parameter', 'model']);
    assert.match(body.error.message, /\/v1\/chat\/completions.*text->rerank/);
    for (const [path, request] of [
      ['/v1/chat/completions', chat('Hi', { model: RANKER })],
      ['/v1/embeddings', { model: RANKER, input: 'Hi' }],
    ] as const) {
      const response = await post(embedded, path, request);
      assert.equal(response.status, 400, path);
      assert.match(await response.text(), /ranks documents.*\/v1\/rerank/);
    }
    const listed = (await (await fetch(`${embedded.url}/v1/models/${RANKER}`)).json()) as object;
    assert.partialDeepStrictEqual(listed, {
      architecture: { modality: 'text->rerank' },
      max_completion_tokens: 0,
    });
  });

  test('is replayed for the same idempotency key', async () => {
    const headers = { 'idempotency-key': 'once' };
    const first = await rank(embedded, {}, { headers });
    const second = await rank(embedded, {}, { headers });
    assert.deepEqual(second.body, first.body);
    assert.equal(second.headers.get('x-sluice-idempotent-replay'), 'true');
  });

  test('is aborted when the client disconnects, which frees the slot', async () => {
    const stop = new AbortController();
    const response = fetch(`${embedded.url}/v1/rerank`, {
      method: 'POST',
      headers: { authorization: `Bearer ${embedded.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: RANKER, query: 'a', documents: ['a', 'b', scripted({ tokenMs: 1e6 })] }),
      signal: stop.signal,
    });
    const slots = async () => (await engineHealth(embedded)).slotsInUse;
    await until(async () => (await slots()) === 1);
    stop.abort();
    await assert.rejects(response);
    await until(async () => (await slots()) === 0);
  });
});

for (const databases of testDatabases())
  test(`a ranking has a row of the ledger and counts toward limits: ${databases.name}`, async () => {
    await using location = await databases.location();
    await using service = await startService(
      `
plans: {wide: {}, small: {tokensPerDay: 160}}
defaultPlan: wide
models:
  - id: ${RANKER}
    required: true
    pricing: {prompt: '2'}
    engine: {file: 'scripted:{"ranks": true, "contextTokens": 64}'}
`,
      location.env,
    );
    const admin = await Management.of(service);
    const { key } = await admin.caller('small');
    const { status, headers } = await rank({ ...service, key }, { documents: ['a', 'b'] });
    assert.equal(status, 200);
    const receipt = await admin.receipt(headers.get('x-request-id') ?? '');
    assert.partialDeepStrictEqual(receipt?.request, {
      state: 'settled',
      endpoint: 'rerank',
      prompt_tokens: 6,
      completion_tokens: 0,
      cost_usd: '0.000012',
      billed: true,
    });
    // The worst case fills the context with each document.
    const denied = await rank({ ...service, key });
    assert.equal(denied.status, 429);
    assert.match(denied.body.error.message, /160/);
  });

describe('a ranking of another server', () => {
  type Answer = (body: Record<string, unknown>) => { status?: number; body: unknown };

  async function serve(answer: Answer, replica: string, modality = 'modality: text->rerank') {
    await using owned = new AsyncDisposableStack();
    const server = owned.use(
      await HttpReplica.listen((response, request, sent) => {
        const { status = 200, body } =
          request.method === 'GET'
            ? { body: { data: [], model_type: { reranker: {} }, max_input_length: 512 } }
            : answer(sent);
        response.writeHead(status, { 'content-type': 'application/json' });
        response.end(typeof body === 'string' ? body : JSON.stringify(body));
      }),
    );
    const service = owned.use(
      await startService(`
models:
  - id: ${RANKER}
    ${modality}
    contextTokens: 512
    replicas: [{url: '${server.url}', ${replica}}]
`),
    );
    const kept = owned.move();
    return { server, service, [Symbol.asyncDispose]: () => kept.disposeAsync() };
  }

  const usage = { prompt_tokens: 9, total_tokens: 9 };
  const results = [
    { index: 2, relevance_score: 0.25, document: { text: DOCUMENTS[2] } },
    { index: 1, relevance_score: -3.5 },
    { index: 0, relevance_score: -7.123456789 },
  ];
  const scored = results.map(({ index, relevance_score: score }) => ({ index, score }));
  const asked = { model: RANKER, query: QUERY, documents: DOCUMENTS };

  for (const [name, replica, path, sent, response, tokens] of [
    [
      'vllm',
      'dialect: vllm',
      '/v1/rerank',
      asked,
      { id: 'rerank-1', model: 'm', usage: { total_tokens: 9 }, results },
      9,
    ],
    ['sglang', 'dialect: sglang', '/v1/rerank', asked, scored, null],
    ['llama-server', 'dialect: llama-server', '/v1/rerank', asked, { object: 'list', usage, results }, 9],
    ['tei', 'dialect: tei', '/rerank', { query: QUERY, texts: DOCUMENTS }, scored, null],
    ['openai', 'dialect: openai', '/v1/rerank', asked, { object: 'list', usage, data: results }, 9],
  ] as const)
    test(`${name} gets the query and the documents, and its scores are returned`, async () => {
      // TEI reports what the model is.
      await using test = await serve(() => ({ body: response }), replica, name === 'tei' ? '' : undefined);
      const { status, body } = await rank(test.service, { top_n: 2 });
      assert.equal(status, 200);
      assert.deepEqual(body.results, [
        { index: 2, relevance_score: 0.25 },
        { index: 1, relevance_score: -3.5 },
      ]);
      // Estimated: 2 for the query and 3 for each document.
      assert.partialDeepStrictEqual(body.usage, { prompt_tokens: tokens ?? 15 });
      assert.deepEqual(test.server.paths, [path]);
      assert.deepEqual(test.server.bodies, [sent]);
    });

  test('of a large response keeps the scores as they are', async () => {
    const documents = Array.from({ length: 1000 }, (_, index) => `${index} `.repeat(200));
    const scores = documents.map((text, index) => ({
      index,
      score: index / 3,
      document: text,
      meta_info: {},
    }));
    await using test = await serve(() => ({ body: scores }), 'dialect: sglang');
    const { body } = await rank(test.service, { documents, top_n: 2 });
    assert.deepEqual(body.results, [
      { index: 999, relevance_score: 333 },
      { index: 998, relevance_score: 998 / 3 },
    ]);
  });

  test('tgi has none', async () => {
    await using test = await serve(() => ({ body: {} }), 'dialect: tgi');
    const { status, body } = await rank(test.service);
    assert.deepEqual([status, body.error.code, body.error.param], [400, 'unsupported_parameter', 'model']);
    assert.deepEqual(test.server.paths, []);
  });

  test('a refusal of the server is an error of the caller', async () => {
    const error = 'batch size 3 > maximum allowed batch size 2';
    await using test = await serve(
      () => ({ status: 422, body: { error, error_type: 'Validation' } }),
      'dialect: tei',
    );
    const { status, body } = await rank(test.service);
    assert.equal(status, 400);
    assert.match(body.error.message, /batch size/);
  });

  test('a server without a score for each document has failed, and the request costs nothing', async () => {
    for (const body of [
      { results: results.slice(1) },
      { results: [...results.slice(1), { index: 1, relevance_score: 1 }] },
      { results: [...results.slice(1), { index: 2, relevance_score: 'high' }] },
      '[{"index":0,"score":1e999}]',
      { error: 'none' },
      'no JSON',
    ]) {
      await using test = await serve(() => ({ body }), 'dialect: vllm');
      const found = await rank(test.service);
      assert.equal(found.status, 503, JSON.stringify(body));
      const admin = await Management.of(test.service);
      const receipt = await admin.receipt(found.headers.get('x-request-id') ?? '');
      assert.partialDeepStrictEqual(receipt?.request, { billed: false });
    }
  });
});
