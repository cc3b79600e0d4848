import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DIALECT_TRAITS, replicaAddress } from '../../src/replicas/dialects.ts';
import { ENGINE_PROTOCOL } from '../../src/engine/engine-protocol.ts';
import { DIALECTS, type Dialect } from '../../src/core/generation.ts';
import { SILENT, type Log } from '../../src/support/log.ts';
import { HttpReplicaClient } from '../../src/replicas/replica-client.ts';
import { HttpReplica, REPLICA } from './replicas.ts';
import { chat, collect, MODEL, NEVER_ABORTED } from '../engine/requests.ts';

describe('the base URL of a replica', () => {
  for (const [url, origin, basePath, api = `${basePath}/v1`] of [
    ['http://host:8000', 'http://host:8000', ''],
    ['http://host:8000/', 'http://host:8000', ''],
    ['http://host:8000/v1', 'http://host:8000', ''],
    ['https://host/v1/', 'https://host', ''],
    ['http://[::1]:80/models/a/v1', 'http://[::1]', '/models/a'],
    ['http://host/v10', 'http://host', '/v10'],
    ['https://host/v1beta/openai/', 'https://host', '/v1beta/openai', '/v1beta/openai'],
    ['https://host/api/v1', 'https://host', '/api', '/api/v1'],
  ] as const) {
    it(`can be ${url}`, () => {
      const dialect = api === `${basePath}/v1` ? 'vllm' : 'openai';
      assert.deepEqual(replicaAddress(url, dialect), { origin, basePath, apiPath: api });
    });
  }
});

/** Responses of real servers, with the relevant fields only. */
const RESPONSES: Record<Dialect, Record<string, unknown>> = {
  sluice: {
    '/health': { protocol: ENGINE_PROTOCOL },
    '/model': { contextTokens: 2048, maxCompletionTokens: 2048 },
  },
  vllm: {
    '/v1/models': {
      object: 'list',
      data: [
        { id: 'base', max_model_len: 1 },
        { id: MODEL, object: 'model', owned_by: 'vllm', max_model_len: 2048 },
      ],
    },
  },
  sglang: { '/v1/models': { data: [{ id: MODEL, owned_by: 'sglang', max_model_len: 2048 }] } },
  'llama-server': {
    '/props': { default_generation_settings: { n_ctx: 2048, params: {} }, total_slots: 4 },
    '/v1/models': { data: [{ id: MODEL, meta: { n_ctx_train: 131_072 } }] },
  },
  tgi: { '/info': { model_id: 'a/b', max_total_tokens: 2048, max_input_tokens: 1024 } },
  tei: { '/info': { model_id: 'a/b', model_type: { reranker: {} }, max_input_length: 2048 } },
  openai: {
    '/v1/models': {
      data: [
        { id: 'another', context_length: 1 },
        { id: MODEL, context_length: 2048 },
      ],
    },
  },
};

describe('a dialect', () => {
  for (const dialect of DIALECTS) {
    it(`reads the context length and the health of a ${dialect} replica`, async () => {
      await using replica = await HttpReplica.listen(
        (response, { url = '' }) => {
          const body = RESPONSES[dialect][url] ?? (url === '/health' ? '' : undefined);
          if (body === undefined) response.writeHead(404);
          response.end(body === undefined ? '' : JSON.stringify(body));
        },
        { dialect },
      );
      assert.equal((await replica.client.describe(NEVER_ABORTED)).contextTokens, 2048);
      await replica.client.health(NEVER_ABORTED);
    });

    it(`ignores unusable model information of a ${dialect} replica`, () => {
      const traits = DIALECT_TRAITS[dialect];
      for (const body of [
        {},
        { data: [] },
        { data: 'x' },
        { data: [null] },
        { data: [{ max_model_len: -1 }] },
      ]) {
        assert.equal(traits.readDescription(body, MODEL).contextTokens, null);
      }
    });

    it(`separates the prefix caches of accounts at a ${dialect} replica, or logs a warning`, async () => {
      const warnings: string[] = [];
      const log: Log = { ...SILENT, warn: (message) => void warnings.push(message) };
      await using replica = await HttpReplica.listen((response) => response.writeHead(503).end(), {
        dialect,
        log,
      });
      await assert.rejects(
        collect(replica.client.generate(chat({}, { cacheScope: 'scope' }), NEVER_ABORTED)),
      );
      const [{ cache_salt: salt, cache_prompt: cache, cacheScope } = {}] = replica.bodies;
      const isSeparate = (salt ?? cacheScope) === 'scope' || cache === false;
      assert(isSeparate || warnings.length === 1 || DIALECT_TRAITS[dialect].isolation === 'none');
    });
  }

  it('leaves the cache on with sharedPrefixCache', async () => {
    const shared = { dialect: 'llama-server', sharedPrefixCache: true } as const;
    await using replica = await HttpReplica.listen((response) => response.writeHead(503).end(), shared);
    await assert.rejects(collect(replica.client.generate(chat(), NEVER_ABORTED)));
    assert.equal(replica.bodies[0]?.['cache_prompt'], undefined);
    const warnings: string[] = [];
    const log: Log = { ...SILENT, warn: (message) => void warnings.push(message) };
    await using quiet = new HttpReplicaClient({ ...REPLICA, dialect: 'tgi', sharedPrefixCache: true, log });
    assert.deepEqual([quiet.dialect, warnings], ['tgi', []]);
  });
});
