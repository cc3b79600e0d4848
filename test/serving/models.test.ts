import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { scripted as directed, type Directive } from '../support/scripted-engine/directive.ts';
import { openDatabase } from '../../src/database/database.ts';
import { MODELS_REVISION } from '../../src/database/schema.ts';
import type { Contract } from '../../src/http/api/contract.ts';
import { isReady } from '../../src/routing/readiness.ts';
import { chat, MODEL, openService, post, startService, until, type TestService } from '../harness.ts';
import { run } from '../commands/program.ts';
import { HttpReplica, respondHello } from '../replicas/replicas.ts';
import { Management } from '../management.ts';
import { buildGguf, TINY_METADATA } from '../models/gguf-builder.ts';
import { addressOf, listen } from '../models/fake-hub.ts';
import { SQLITE, testDatabases } from '../support/servers.ts';

type Model = Contract['addModel']['response'];

/** An element of the list of replicas of the command line. */
type Listed = Record<'model' | 'name' | 'server', string>;

const SECOND = 'test/second';
type Receipt = Contract['getReceipt']['response'];

const scripted = (options: object = {}) => `scripted:${JSON.stringify(options)}`;

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let disposal: AsyncDisposableStack;
    let env: NodeJS.ProcessEnv;
    let service: TestService;
    let management: Management;
    before(async () => {
      await using owned = new AsyncDisposableStack();
      ({ env } = owned.use(await kind.location()));
      service = owned.use(await startService(undefined, env));
      management = await Management.of(service);
      disposal = owned.move();
    });
    after(() => disposal.disposeAsync());

    const list = async ({ url, admin } = management) => {
      const response = await fetch(`${url}/api/models`, { headers: { authorization: `Bearer ${admin}` } });
      return ((await response.json()) as Contract['listServedModels']['response']).data;
    };
    const stateOf = async (id: string) => (await list()).find((model) => model.id === id)?.state;
    const ask = async (model: string) =>
      await post(service, '/v1/chat/completions', chat('1 2 3', { model }));
    const refusal = async (path: string, body: object) => {
      const response = await fetch(management.url + path, {
        method: 'POST',
        headers: { authorization: `Bearer ${management.admin}` },
        body: JSON.stringify(body),
      });
      const { error } = (await response.json()) as {
        error: { code: string; param: string; message: string };
      };
      return { status: response.status, ...error };
    };

    test('a model is added, used, unloaded, loaded and removed without a restart', async () => {
      const added = (await management.call('POST', '/api/models', {
        id: SECOND,
        source: scripted(),
        pricing: { prompt: '0.5' },
      })) as unknown as Model;
      assert.deepEqual(
        [added.id, added.origin, added.embedded, added.source, added.pricing],
        [SECOND, 'added', true, scripted(), { prompt: '0.5', completion: '0', input_cache_read: null }],
      );
      await until(async () => (await stateOf(SECOND)) === 'ready');
      assert.equal((await ask(SECOND)).status, 200);

      await management.call('POST', '/api/models/unload', { model: SECOND });
      assert.equal(await stateOf(SECOND), 'unloaded');
      assert.equal((await ask(SECOND)).status, 503);
      const listed = (await (await fetch(`${service.url}/v1/models`)).json()) as { data: { id: string }[] };
      assert.deepEqual(
        listed.data.map(({ id }) => id),
        [MODEL],
      );

      await management.call('POST', '/api/models/load', { model: SECOND });
      await until(async () => (await stateOf(SECOND)) === 'ready');
      assert.equal((await ask(SECOND)).status, 200);

      await management.call('POST', '/api/models/remove', { model: SECOND });
      assert.equal(await stateOf(SECOND), undefined);
      assert.equal((await ask(SECOND)).status, 404);
    });

    test('a changed price applies to the next request, and a changed context restarts the engine', async () => {
      await management.call('POST', '/api/models', { id: SECOND, source: scripted() });
      await until(async () => (await stateOf(SECOND)) === 'ready');
      const model = { model: SECOND };
      await management.call('POST', '/api/models/update', { ...model, pricing: { completion: '2' } });
      const first = (await list()).find(({ id }) => id === SECOND);
      assert.deepEqual(
        [first?.pricing, first?.state],
        [{ prompt: '0', completion: '2', input_cache_read: null }, 'ready'],
      );
      await management.call('POST', '/api/models/update', { ...model, context_tokens: 512 });
      await until(async () => {
        const now = (await list()).find(({ id }) => id === SECOND);
        return now?.state === 'ready' && now.context_length === 512;
      });
      await management.call('POST', '/api/models/update', { ...model, pricing: { prompt: '1' } });
      const last = (await list()).find(({ id }) => id === SECOND);
      assert.deepEqual(
        [last?.pricing, last?.context_length],
        [{ prompt: '1', completion: '2', input_cache_read: null }, 512],
      );
      await management.call('POST', '/api/models/update', { ...model, context_tokens: null });
      await until(async () => {
        const now = (await list()).find(({ id }) => id === SECOND);
        return now?.state === 'ready' && now.context_length !== 512 && now.context_tokens === null;
      });
      await management.call('POST', '/api/models/update', { ...model, pricing: { prompt: '0' } });
      await management.call('POST', '/api/models/remove', model);
    });

    test('cached prompt tokens are charged at the price that a model has for them', async () => {
      const { url } = management;
      const pricing = { prompt: '1000000', completion: '2000000', input_cache_read: '10000' };
      await management.call('POST', '/api/models', { id: SECOND, source: scripted(), pricing });
      await until(async () => (await stateOf(SECOND)) === 'ready');
      const model = { model: SECOND };
      const listed = async () => {
        const card = (await (await fetch(`${url}/v1/models/${SECOND}`)).json()) as { pricing: object };
        return [card.pricing, (await list()).find(({ id }) => id === SECOND)?.pricing];
      };
      assert.deepEqual(await listed(), [pricing, pricing]);
      const { key, keyId, accountId } = await management.caller(null, { limits: { usd_per_month: '9999' } });
      const authorization = { authorization: `Bearer ${key}` };
      const spent = async () => {
        const path = `/api/limits?account_id=${accountId}&key_id=${keyId}`;
        const { data } = await management.call('GET', path);
        return (data as { limit: string; used: string }[]).find(({ limit }) => limit === 'usd_per_month')
          ?.used;
      };
      const costOf = async (directive: Directive) => {
        const response = await post(
          service,
          '/v1/chat/completions',
          chat(directed(directive), model),
          authorization,
        );
        const { usage } = (await response.json()) as { usage?: { prompt_tokens: number } };
        const id = response.headers.get('x-request-id') ?? '';
        const { cost, request } = (await management.call('GET', `/api/receipts/${id}`)) as unknown as Receipt;
        return {
          promptTokens: usage?.prompt_tokens ?? 0,
          request,
          lines: cost.map(({ what, tokens, usd }) => [what, tokens, usd]),
        };
      };

      const { promptTokens, request, lines } = await costOf({ tokens: 3, cachedTokens: 4 });
      const uncached = promptTokens - 4;
      assert.deepEqual(lines, [
        ['prompt', uncached, String(uncached)],
        ['input_cache_read', 4, '0.04'],
        ['completion', 3, '6'],
      ]);
      const cost = `${uncached + 6}.04`;
      assert.deepEqual([request.cost_usd, request.price], [cost, pricing]);
      const { data } = await management.call('GET', `/api/usage?account_id=${accountId}`);
      const [sum] = data as Contract['readUsage']['response']['data'];
      assert.deepEqual([sum?.cached_tokens, sum?.cost_usd], [4, cost]);
      await until(async () => (await spent()) === cost);

      const failed = await costOf({ tokens: 3, cachedTokens: 4, errorAfter: 2 });
      assert.deepEqual(
        [failed.request.cost_usd, failed.lines.map(([what]) => what)],
        ['0', ['prompt', 'input_cache_read', 'completion', 'waived']],
      );

      for (const prices of [{ input_cache_read: '1000001' }, { prompt: '9999' }]) {
        const { status, code, param } = await refusal('/api/models/update', { ...model, pricing: prices });
        assert.deepEqual([status, code, param], [400, 'invalid_value', 'pricing.input_cache_read']);
      }
      await management.call('POST', '/api/models/update', { ...model, pricing: { completion: '1' } });
      assert.deepEqual((await listed())[0], { ...pricing, completion: '1' });
      await management.call('POST', '/api/models/update', { ...model, pricing: { input_cache_read: null } });
      const without = { prompt: '1000000', completion: '1' };
      assert.deepEqual(await listed(), [without, { ...without, input_cache_read: null }]);
      const full = await costOf({ tokens: 3, cachedTokens: 4 });
      assert.deepEqual(full.lines[0], ['prompt', promptTokens, String(promptTokens)]);
      await management.call('POST', '/api/models/remove', model);
    });

    test('the default model is listed first until another one is chosen or it is removed', async () => {
      const listed = async () => {
        const response = await fetch(`${service.url}/v1/models`);
        return ((await response.json()) as { data: { id: string }[] }).data.map(({ id }) => id);
      };
      const defaults = async () => (await list()).map(({ id, is_default: isDefault }) => [id, isDefault]);
      await management.call('POST', '/api/models', { id: SECOND, source: scripted() });
      await until(async () => (await stateOf(SECOND)) === 'ready');
      assert.deepEqual(
        [await listed(), (await defaults())[0]],
        [
          [MODEL, SECOND],
          [MODEL, true],
        ],
      );
      const chosen = (await management.call('POST', '/api/models/default', {
        model: SECOND,
      })) as unknown as Model;
      assert.equal(chosen.is_default, true);
      assert.deepEqual(await listed(), [SECOND, MODEL]);
      assert.deepEqual(await defaults(), [
        [SECOND, true],
        [MODEL, false],
      ]);
      await management.call('POST', '/api/models/remove', { model: SECOND });
      await management.call('POST', '/api/models', { id: SECOND, source: scripted() });
      await until(async () => (await stateOf(SECOND)) === 'ready');
      assert.deepEqual(await listed(), [MODEL, SECOND]);
      await management.call('POST', '/api/models/remove', { model: SECOND });
      const unknown = await refusal('/api/models/default', { model: SECOND });
      assert.deepEqual([unknown.status, unknown.code], [404, 'model_not_found']);
    });

    test('a changed context length applies to replicas that do not report theirs', async () => {
      await using replica = await HttpReplica.listen((response, request, body) =>
        request.method === 'GET' ? response.end('{"data":[]}') : respondHello(response, request, body),
      );
      const replicas = [{ url: replica.url, dialect: 'vllm' }];
      await management.call('POST', '/api/models', { id: SECOND, replicas, context_tokens: 4096 });
      await until(async () => (await stateOf(SECOND)) === 'ready');
      assert.equal((await ask(SECOND)).status, 200);
      await management.call('POST', '/api/models/update', { model: SECOND, context_tokens: 8192 });
      assert.equal((await ask(SECOND)).status, 200);
      assert.deepEqual(
        replica.bodies.map(({ max_tokens }) => max_tokens),
        [4096, 8192],
      );
      await management.call('POST', '/api/models/remove', { model: SECOND });
    });

    test('replicas are added and removed at run time, and the last one cannot be removed', async () => {
      await using other = await startService();
      const replica = { url: other.url, dialect: 'openai', model: MODEL };
      const away = { url: 'http://127.0.0.1:9', dialect: 'vllm' };
      await management.call('POST', '/api/models', { id: SECOND, replicas: [away] });
      assert.equal((await ask(SECOND)).status, 503);
      const two = (await management.call('POST', '/api/replicas', {
        model: SECOND,
        replica,
      })) as unknown as Model;
      assert.equal(two.replicas, 2);
      await until(async () => (await stateOf(SECOND)) === 'ready');
      await management.call('POST', '/api/replicas/remove', { model: SECOND, name: `${SECOND}#0` });
      const [only, ...others] = (
        (await management.call('GET', '/api/engines')) as unknown as Contract['listEngines']['response']
      ).data.filter(({ model }) => model === SECOND);
      assert.deepEqual([only?.name, others], [`${SECOND}#1`, []]);
      // The command drains the replica that has this name in the service.
      const listed = JSON.parse((await run(['replicas', 'list', '--json'], env)).stdout) as Listed[];
      assert.deepEqual(
        listed.flatMap(({ model, name, server }) => (model === SECOND ? [[name, server]] : [])),
        [[`${SECOND}#1`, other.url]],
      );
      const drained = await run(['replicas', 'drain', SECOND, `${SECOND}#1`], env);
      assert.match(drained.stderr, new RegExp(`^Drained ${SECOND}#1 \\(${other.url}\\)`));
      await run(['replicas', 'resume', SECOND, `${SECOND}#1`], env);
      const last = await refusal('/api/replicas/remove', { model: SECOND, name: `${SECOND}#1` });
      assert.deepEqual([last.status, last.code, last.param], [409, 'conflict', 'name']);
      const unknown = await refusal('/api/replicas/remove', { model: SECOND, name: `${SECOND}#0` });
      assert.deepEqual([unknown.status, unknown.code], [404, 'not_found']);
      const unload = await refusal('/api/models/unload', { model: SECOND });
      assert.deepEqual([unload.status, unload.code], [409, 'conflict']);
      await management.call('POST', '/api/models/remove', { model: SECOND });
    });

    test('a replica or model that is added again is not drained', async () => {
      await using other = await startService();
      const replica = { url: other.url, dialect: 'openai', model: MODEL };
      const away = { url: 'http://127.0.0.1:9', dialect: 'vllm' };
      const drained = async () => {
        const { data } = await management.call('GET', '/api/engines');
        const replicas = (data as Contract['listEngines']['response']['data']).filter(
          ({ model }) => model === SECOND,
        );
        return replicas.flatMap((replica) => (replica.drained ? replica.name : []));
      };
      const drain = (name: string) =>
        management.call('POST', '/api/engines/drain', { model: SECOND, name: `${SECOND}${name}` });
      await management.call('POST', '/api/models', { id: SECOND, replicas: [away, replica] });
      await drain('#1');
      await management.call('POST', '/api/replicas/remove', { model: SECOND, name: `${SECOND}#1` });
      await management.call('POST', '/api/replicas', { model: SECOND, replica });
      await drain('#0');
      assert.deepEqual(await drained(), [`${SECOND}#0`]);
      await management.call('POST', '/api/models/remove', { model: SECOND });
      await management.call('POST', '/api/models', { id: SECOND, replicas: [away, replica] });
      await drain('#1');
      assert.deepEqual(await drained(), [`${SECOND}#1`]);
      await management.call('POST', '/api/models/remove', { model: SECOND });
    });

    test('a model of servers has the modality that it was added with, even while they are down', async () => {
      const replicas = [{ url: 'http://127.0.0.1:9', dialect: 'vllm' }];
      for (const modality of ['text->embedding', 'text+image->text']) {
        const added = await management.call('POST', '/api/models', { id: SECOND, replicas, modality });
        assert.partialDeepStrictEqual(added, { modality, context_length: null });
        await management.call('POST', '/api/models/remove', { model: SECOND });
      }
    });

    test('the default ID of an address is its file name, even with an invalid percent-encoding', async () => {
      const source = 'https://127.0.0.1:1/a%20b%.gguf';
      const { id } = await management.call('POST', '/api/models', { source });
      assert.equal(id, 'local/a-b-');
      await management.call('POST', '/api/models/remove', { model: id });
    });

    test('invalid changes are refused with the field', async () => {
      for (const [body, code, param] of [
        [{}, 'missing_required_parameter', 'source'],
        [{ source: 'Qwen/Qwen3-0.5B' }, 'invalid_value', 'source'],
        [{ source: 'relative.gguf' }, 'invalid_value', 'source'],
        [{ replicas: [{ url: 'http://a', dialect: 'vllm' }] }, 'missing_required_parameter', 'id'],
        [{ source: scripted(), id: MODEL }, 'conflict', 'id'],
        [{ source: scripted(), id: SECOND, modality: 'text->embedding' }, 'invalid_value', 'modality'],
        [
          { id: SECOND, replicas: [{ url: 'http://a', dialect: 'vllm' }], modality: 'text' },
          'invalid_value',
          'modality',
        ],
        [{ id: SECOND, replicas: [{ url: 'ftp://a', dialect: 'vllm' }] }, 'invalid_value', 'replicas[0].url'],
        [
          {
            id: SECOND,
            replicas: [{ url: 'http://a', dialect: 'vllm', api_key_env: 'SLUICE_DATABASE_URL' }],
          },
          'invalid_value',
          'replicas[0].api_key_env',
        ],
        [
          {
            id: SECOND,
            replicas: [{ url: 'http://a', dialect: 'vllm', api_key_env: 'SLUICE_REPLICA_NONE' }],
          },
          'invalid_value',
          'replicas[0].api_key_env',
        ],
      ] as const) {
        const refused = await refusal('/api/models', body);
        assert.deepEqual([refused.code, refused.param], [code, param], JSON.stringify(body));
      }
      const fixed = await refusal('/api/models/remove', { model: MODEL });
      assert.deepEqual([fixed.status, fixed.code], [409, 'conflict']);
      const unknown = await refusal('/api/models/load', { model: 'test/script' });
      assert.equal(unknown.code, 'model_not_found');
      assert.match(unknown.message, /Did you mean `test\/scripted`/);
    });

    test('added models are served again after a restart; unloaded models stay unloaded, and the default stays the default', async () => {
      await using location = await kind.location();
      {
        await using first = await startService(undefined, location.env);
        const operator = await Management.of(first);
        await operator.call('POST', '/api/models', { id: SECOND, source: scripted() });
        await operator.call('POST', '/api/models', { id: 'test/third', source: scripted() });
        await operator.call('POST', '/api/models/unload', { model: 'test/third' });
        await operator.call('POST', '/api/models/default', { model: 'test/third' });
      }
      await using again = await startService(undefined, location.env);
      const operator = await Management.of(again);
      await until(async () =>
        (await list(operator)).every(({ state }) => state === 'ready' || state === 'unloaded'),
      );
      assert.deepEqual(
        (await list(operator)).map(({ id, state, origin }) => [id, state, origin]),
        [
          ['test/third', 'unloaded', 'added'],
          [MODEL, 'ready', 'file'],
          [SECOND, 'ready', 'added'],
        ],
      );
    });

    test('a model whose definition is not valid is down until it is removed, and the others are served', async () => {
      await using location = await kind.location();
      const definitions = {
        'test/text': 'not json',
        'test/list': '[]',
        'test/price': JSON.stringify({
          id: 'test/price',
          replicas: [{ url: 'http://127.0.0.1:9', dialect: 'vllm' }],
          pricing: { prompt: 'x' },
        }),
        'test/other': JSON.stringify({
          id: 'test/another',
          replicas: [{ url: 'http://127.0.0.1:9', dialect: 'vllm' }],
        }),
      };
      const check = async (running: TestService) => {
        const operator = await Management.of(running);
        await until(() => Object.keys(definitions).every((id) => running.service.router.has(id)));
        const faulty = (await list(operator)).filter(({ id }) => id in definitions);
        assert.ok(faulty.every(({ invalid }) => invalid));
        assert.deepEqual(
          faulty
            .map(({ id, state, reason }) => [id, state, reason?.split(':')[0]])
            .toSorted(([a = ''], [b = '']) => (a ?? '').localeCompare(b ?? '')),
          [
            ['test/list', 'down', 'its definition in the database is not valid'],
            ['test/other', 'down', 'its definition in the database has another ID, "test/another"'],
            ['test/price', 'down', '`pricing.prompt` of its definition in the database is not valid'],
            ['test/text', 'down', 'its definition in the database is not JSON'],
          ],
        );
        assert.equal(
          (await post(running, '/v1/chat/completions', chat('1', { model: 'test/text' }))).status,
          503,
        );
        assert.equal((await post(running, '/v1/chat/completions', chat('1'))).status, 200);
        return operator;
      };
      {
        await using first = await startService(undefined, location.env);
        await using database = await openDatabase(location);
        for (const [id, definition] of Object.entries(definitions)) {
          const row = { id, node: '', definition, loaded: 1, created_at: 1 };
          await database.kysely.insertInto('models').values(row).execute();
        }
        await database.kysely
          .updateTable('settings')
          .set({ value: '7777' })
          .where('name', '=', MODELS_REVISION)
          .execute();
        await check(first);
      }
      await using opened = await openService(undefined, location.env);
      const { key } = await opened.service.keys.create({ name: 'test' });
      const again = { ...opened, key: key.reveal() };
      await until(() => isReady(again.service.router.overview()));
      const operator = await check(again);
      const { stdout, stderr } = await run(['models', 'list', '--added'], location.env);
      assert.match(stdout, /^test\/text +invalid/m);
      assert.match(
        stderr,
        /test\/text is not served: its definition in the database is not JSON\. Remove it: .*models remove test\/text/,
      );
      assert.match(
        again.log(),
        /test\/text","reason":"its definition in the database is not JSON","message":"a model cannot be used"/,
      );
      for (const path of ['load', 'update']) {
        await assert.rejects(
          operator.call('POST', `/api/models/${path}`, { model: 'test/text' }),
          /can only be removed/,
        );
      }
      for (const model of Object.keys(definitions))
        await operator.call('POST', '/api/models/remove', { model });
      assert.deepEqual(
        (await list(operator)).map(({ id }) => id),
        [MODEL],
      );
    });

    test('an added model stays when the host gets another name, and one of an instance that is gone can be removed', async () => {
      await using location = await kind.location();
      const node = kind.name === 'SQLite' ? '' : 'pod-1:/data';
      // The data directory was new when the host had another name.
      await writeFile(join(location.home, 'node'), 'pod-1:/data');
      await using database = await openDatabase(location);
      const insert = async (id: string, of: string) => {
        const definition = JSON.stringify({ id, engine: { file: 'scripted:{}' } });
        const row = { id, node: of, definition, loaded: 1, created_at: 1 };
        await database.kysely.insertInto('models').values(row).execute();
      };
      await insert('test/kept', node);
      for (const id of ['test/gone', 'test/lost']) await insert(id, 'pod-0:/data');
      await using running = await startService(undefined, location.env);
      const operator = await Management.of(running);
      assert.deepEqual(
        (await list(operator)).map(({ id }) => id),
        [MODEL, 'test/kept'],
      );
      assert.match(running.log(), /"model":"test\/gone","instance":"pod-0:\/data"/);
      const listed = await run(['models', 'list', '--added'], location.env);
      assert.match(listed.stdout, /^test\/gone +elsewhere/m);
      assert.match(listed.stderr, /test\/lost is served only by the instance pod-0:\/data\. If that is gone/);
      await operator.call('POST', '/api/models/remove', { model: 'test/gone' });
      await assert.rejects(
        operator.call('POST', '/api/models/remove', { model: 'test/gone' }),
        /does not exist/,
      );
      assert.equal((await run(['models', 'remove', 'lost'], location.env)).code, 0);
      const added = { id: 'test/added', source: 'scripted:{}' };
      await operator.call('POST', '/api/models', added);
      const rows = await database.kysely.selectFrom('models').select(['id', 'node']).orderBy('id').execute();
      assert.deepEqual(
        rows.map((row) => [row.id, row.node]),
        [
          ['test/added', node],
          ['test/kept', node],
        ],
      );
    });

    test('a model in the configuration hides the added one with the same ID', async () => {
      await using location = await kind.location();
      {
        await using first = await startService(undefined, location.env);
        const operator = await Management.of(first);
        await operator.call('POST', '/api/models', { id: SECOND, source: scripted() });
      }
      const yaml = `models:\n  - id: ${SECOND}\n    engine: { file: 'scripted:' }\n`;
      await using again = await startService(yaml, location.env);
      const models = await list(await Management.of(again));
      assert.deepEqual(
        models.map(({ id, origin, source }) => [id, origin, source]),
        [[SECOND, 'file', 'scripted:']],
      );
      assert.match(again.log(), /because a model in the configuration has its ID/);
    });
  });
}

test('a replica behind an invalid proxy is refused, and an added model with one is down, while others are served', async () => {
  await using location = await SQLITE.location();
  const remote = (url: string) => ({ url, dialect: 'openai' });
  const model = { id: 'test/remote', replicas: [remote('http://remote.invalid')] };
  {
    await using first = await startService(undefined, location.env);
    await (await Management.of(first)).call('POST', '/api/models', model);
  }
  const env = { ...location.env, http_proxy: 'http://user:50%@proxy.invalid', no_proxy: '' };
  await using opened = await openService(undefined, env);
  await until(() => isReady(opened.service.router.overview()));
  const operator = await Management.of(opened);
  const states = async () =>
    ((await operator.call('GET', '/api/models')).data as Model[]).map(({ id, state }) => [id, state]);
  assert.deepEqual(await states(), [
    [MODEL, 'ready'],
    ['test/remote', 'down'],
  ]);
  const invalid = /HTTP_PROXY must be the URL of a proxy, such as http:\/\/proxy\.example\.org:3128/;
  assert.match(opened.log(), invalid);
  const other = { id: 'test/other', replicas: [remote('http://other.invalid')] };
  await assert.rejects(operator.call('POST', '/api/models', other), invalid);
  await operator.call('POST', '/api/models', { ...other, replicas: [remote('http://127.0.0.1:9')] });
  const replica = remote('http://other.invalid');
  await assert.rejects(operator.call('POST', '/api/replicas', { model: other.id, replica }), invalid);
  for (const { id } of [model, other]) await operator.call('POST', '/api/models/remove', { model: id });
  assert.deepEqual(await states(), [[MODEL, 'ready']]);
});

test('instances on one database share models on other servers, and each has its own engines', async (context) => {
  const kind = testDatabases().find(({ name }) => name === 'PostgreSQL');
  if (!kind) return context.skip('PostgreSQL is not available');
  await using location = await kind.location();
  const { SLUICE_DATABASE_URL: url } = location.env;
  await using a = await startService(undefined, { SLUICE_DATABASE_URL: url });
  await using b = await startService(undefined, { SLUICE_DATABASE_URL: url });
  const operator = await Management.of(a);
  const replicas = [{ url: 'http://127.0.0.1:9', dialect: 'vllm' }];
  await operator.call('POST', '/api/models', { id: 'test/far', replicas });
  await operator.call('POST', '/api/models', { id: SECOND, source: scripted() });
  await until(() => b.service.router.has('test/far'));
  assert.deepEqual([a.service.router.has(SECOND), b.service.router.has(SECOND)], [true, false]);
  await fetch(`${b.url}/api/models/remove`, {
    method: 'POST',
    headers: { authorization: `Bearer ${operator.admin}` },
    body: JSON.stringify({ model: 'test/far' }),
  });
  await until(() => !a.service.router.has('test/far'));
});

test('a download shows its progress, is canceled and resumed, and its file is deleted with the model', async () => {
  const file = buildGguf({ metadata: { ...TINY_METADATA, 'general.license': 'MIT' } });
  const half = Math.floor(file.length / 2);
  const ranges: (string | undefined)[] = [];
  const server = await listen((request, response) => {
    if (request.method === 'HEAD') {
      response.writeHead(200, { 'content-length': file.length, 'accept-ranges': 'bytes', etag: '"a"' }).end();
      return;
    }
    const { range } = request.headers;
    ranges.push(range);
    const start = Number(/bytes=(\d+)-/.exec(range ?? '')?.[1] ?? 0);
    const headers = { 'content-length': file.length - start, 'accept-ranges': 'bytes', etag: '"a"' };
    if (start > 0) {
      const contentRange = `bytes ${start}-${file.length - 1}/${file.length}`;
      response.writeHead(206, { ...headers, 'content-range': contentRange });
      response.end(file.subarray(start));
    } else {
      // The rest never arrives.
      response.writeHead(200, headers).write(file.subarray(0, half));
    }
  });
  try {
    await using service = await startService();
    const management = await Management.of(service);
    const model = 'local/tiny';
    const details = async () =>
      (
        (await management.call('GET', '/api/models')) as unknown as Contract['listServedModels']['response']
      ).data.find(({ id }) => id === model);
    await management.call('POST', '/api/models', { source: `${addressOf(server)}/tiny.gguf` });
    await until(async () => (await details())?.received_bytes === half);
    const downloading = await details();
    assert.deepEqual([downloading?.state, downloading?.total_bytes], ['downloading', file.length]);
    assert.deepEqual([downloading?.downloaded, downloading?.license], [false, null]);
    await management.call('POST', '/api/models/unload', { model });
    assert.equal((await details())?.state, 'unloaded');
    await management.call('POST', '/api/models/load', { model });
    // The file has no weights, so the engine cannot load it.
    await until(async () => (await details())?.state === 'down');
    assert.equal(ranges.at(-1), `bytes=${half}-`);
    const { downloaded, size_bytes: size, license, deletes_file: deletes } = (await details()) ?? {};
    assert.deepEqual([downloaded, size, license, deletes], [true, file.length, 'MIT', true]);
    // Loading it again starts its engine once more.
    await management.call('POST', '/api/models/load', { model });
    await until(() => service.log().match(/"the engine cannot start"/g)?.length === 2);
    // A second model with the same file keeps it.
    await management.call('POST', '/api/models', { id: SECOND, source: `${addressOf(server)}/tiny.gguf` });
    assert.equal((await details())?.deletes_file, false);
    await management.call('POST', '/api/models/remove', { model: SECOND });
    assert.equal((await details())?.deletes_file, true);
    await management.call('POST', '/api/models/remove', { model });
    assert.match(service.log(), /model file deleted/);
    const files = await readdir(join(service.home, 'models'), { recursive: true });
    assert.deepEqual(
      files.filter((name) => name.includes('tiny')),
      [],
    );
  } finally {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  }
});
