import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { API_ENDPOINTS } from '../../../src/http/api/endpoints.ts';
import { MODEL, until } from '../../harness.ts';
import { testDatabases } from '../../support/servers.ts';
import {
  first,
  assertRefused,
  startManagedService,
  type ManagedService,
  type ResponseBody,
} from './managed-service.ts';

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let managed: ManagedService;
    before(async () => (managed = await startManagedService(kind)));
    after(() => managed[Symbol.asyncDispose]());

    const call: ManagedService['call'] = (...args) => managed.call(...args);
    const ok: ManagedService['ok'] = (...args) => managed.ok(...args);
    const account = async (fields: object = {}): Promise<ResponseBody> =>
      ok('POST', '/api/accounts', { body: { name: 'acme', ...fields } });
    const key = async (fields: object = {}): Promise<ResponseBody> =>
      ok('POST', '/api/keys', { body: { name: 'a', ...fields } });

    test('an account is created, read, changed and closed, and the audit log contains the IP address', async () => {
      const created = await account({ plan: 'free' });
      assert.match(created.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      assert.deepEqual([created.name, created.plan, created.status], ['acme', 'free', 'active']);
      const path = `/api/accounts/${created.id}`;
      assert.deepEqual(await ok('GET', path), created);
      const changed = await ok('PATCH', path, { body: { name: 'Acme', plan: null, status: 'suspended' } });
      assert.deepEqual(changed, { ...created, name: 'Acme', plan: null, status: 'suspended' });
      assert.deepEqual(await ok('PATCH', path, { body: {} }), changed);
      await ok('PATCH', path, { body: { status: 'closed' } });
      assertRefused(await call('PATCH', path, { body: { status: 'active' } }), 409, 'conflict', 'id');

      const { data } = await ok('GET', `/api/audit?account_id=${created.id}&action=account.close`);
      const { actor, ip, subject, detail } = first(data);
      assert.match(actor, /^key:key_[0-9a-f]{24}$/);
      assert.deepEqual(
        [ip, subject, detail],
        ['127.0.0.1', `account:${created.id}`, { from: 'suspended', to: 'closed' }],
      );
    });

    test('a key works at once, for its models, until it is revoked', async () => {
      const { id: accountId } = await account();
      const limits = {
        requests_per_minute: 60,
        usd_per_month: '9999.5',
        burst: { requests: 5 },
        models: { [MODEL]: { tokens_per_day: 100_000, burst: { tokens: 7 } } },
      };
      const expires = new Date(Date.now() + 3_600_000).toISOString();
      const { key: text, ...created } = await key({
        account_id: accountId,
        allowed_models: [MODEL],
        limits,
        expires_at: expires,
      });
      assert.match(text, /^sk-sluice-/);
      assert.deepEqual(
        [
          created.account_id,
          created.kind,
          created.status,
          created.limits,
          created.allowed_models,
          created.expires_at,
        ],
        [accountId, 'caller', 'live', limits, [MODEL], expires],
      );
      const path = `/api/keys/${created.id}`;
      assert.deepEqual(await ok('GET', path), created);
      assert.deepEqual((await ok('GET', `/api/keys?account_id=${accountId}`)).data, [created]);
      assert.equal((await managed.generate(text)).status, 200);

      const changed = await ok('PATCH', path, { body: { allowed_models: ['other/model'] } });
      assert.deepEqual(changed, {
        ...created,
        allowed_models: ['other/model'],
        last_used_at: changed.last_used_at,
      });
      assert.equal((await managed.generate(text)).status, 403);
      const plain = { name: 'b', allowed_models: null, limits: null, expires_at: null };
      const { last_used_at: _, ...cleared } = await ok('PATCH', path, { body: plain });
      assert.deepEqual({ ...cleared, last_used_at: null }, { ...created, ...plain });
      assert.equal((await managed.generate(text)).status, 200);

      const tagged = await call('PATCH', path, { body: { tags: ['a', 'b,c'] } });
      assertRefused(tagged, 400, 'invalid_value', 'tags[1]');
      assert.match(tagged.body.error.message, /^`tags\[1\]` must be 1 to 40 characters, without commas/);

      const rotated = await ok('POST', `${path}/rotate`, {
        body: { previous_expires_at: new Date(Date.now() + 60_000).toISOString() },
      });
      assert.notEqual(rotated.previous, null);
      assert.equal((await ok('POST', `${path}/end-previous`)).previous, null);
      const revoked = await ok('POST', `${path}/revoke`);
      assert.deepEqual([revoked.status, typeof revoked.revoked_at], ['revoked', 'string']);
      assert.equal((await managed.generate(text)).status, 401);
      assert.deepEqual(await ok('POST', `${path}/revoke`), revoked);
      const { data } = await ok('POST', '/api/key-revocations', { body: { ids: [created.id] } });
      assert.deepEqual(data, [revoked]);
      assertRefused(await call('PATCH', path, { body: { name: 'c' } }), 409, 'conflict', 'id');
      const log = JSON.stringify(await ok('GET', `/api/audit?subject=key:${created.id}`));
      assert.ok(!log.includes(text.slice(14, -4)) && !managed.test.log().includes(text.slice(14, -4)));
    });

    test('a playground key works for an hour, and is listed only if its purpose is requested', async () => {
      const { id: accountId } = await account({ plan: 'free' });
      const before = Date.now();
      const created = await ok('POST', '/api/playground-keys', { body: { account_id: accountId } });
      const lifeMs = Date.parse(created.expires_at) - before;
      assert.ok(lifeMs >= 3_600_000 && lifeMs < 3_700_000, String(lifeMs));
      const list = (query: string) => ok('GET', `/api/keys?account_id=${accountId}${query}`);
      assert.deepEqual((await list('')).data, []);
      const [listed] = (await list('&purpose=playground')).data;
      assert.deepEqual([listed?.id, listed?.kind, listed?.status], [created.id, 'caller', 'live']);
      assert.equal((await managed.generate(created.key)).status, 200);
      await ok('PATCH', `/api/accounts/${accountId}`, { body: { plan: 'tiny' } });
      assert.equal((await managed.generate(created.key)).status, 429, 'the limits of its account apply');
    });

    test('changes of plans, limits and statuses take effect at once', async () => {
      const { id } = await account();
      const { key: text, id: keyId } = await key({ account_id: id });
      assert.equal((await managed.generate(text)).status, 200);
      await ok('PATCH', `/api/accounts/${id}`, { body: { plan: 'tiny' } });
      const refused = await managed.generate(text);
      assert.deepEqual(
        [refused.status, ((await refused.json()) as ResponseBody).error.code],
        [429, 'insufficient_quota'],
      );
      await ok('PATCH', `/api/accounts/${id}`, { body: { plan: 'big' } });
      await ok('PATCH', `/api/keys/${keyId}`, { body: { limits: { usd_per_month: '0.01' } } });
      assert.equal((await managed.generate(text)).status, 429);
      for (const [path, was] of [
        [`/api/keys/${keyId}`, '0.01'],
        [`/api/accounts/${id}`, null],
      ] as const) {
        const budget = (usd_per_month: string | null, previous: string | null) => ({
          body: { limits: { usd_per_month }, previous_limits: { usd_per_month: previous } },
        });
        await ok('PATCH', path, budget('9998', was));
        const late = await call('PATCH', path, budget('7', was));
        assertRefused(late, 409, 'conflict', 'limits');
        assert.match(late.body.error.message, /`usd_per_month` was .* and is now 9998\./);
        await ok('PATCH', path, budget(was, '9998'));
        const { limits } = await ok('GET', path);
        assert.deepEqual(limits, was === null ? null : { usd_per_month: was });
      }
      await ok('PATCH', `/api/keys/${keyId}`, { body: { limits: null } });
      const own = { tokens_per_day: 1, models: { [MODEL]: { usd_per_month: '100000' } } };
      const limited = await ok('PATCH', `/api/accounts/${id}`, { body: { limits: own } });
      assert.deepEqual([limited.plan, limited.limits], ['big', own]);
      const { error } = (await (await managed.generate(text)).json()) as ResponseBody;
      assert.match(error.message, /^This account allows 1 token per UTC day,/);
      const { data } = await ok('GET', `/api/limits?account_id=${id}`);
      assert.deepEqual(
        data.map(({ scope, model, limit, bound }) => [scope, model, limit, bound]),
        [
          ['account', null, 'tokens_per_day', 1],
          ['account', MODEL, 'usd_per_month', '100000'],
        ],
      );
      await ok('PATCH', `/api/accounts/${id}`, { body: { limits: null } });
      await ok('PATCH', `/api/accounts/${id}`, { body: { status: 'suspended' } });
      assert.equal((await managed.generate(text)).status, 401);
      await ok('PATCH', `/api/accounts/${id}`, { body: { status: 'active' } });
      assert.equal((await managed.generate(text)).status, 200);
    });

    test('a change of limits keeps those that it does not name, and removes those that are null', async () => {
      const { id } = await account();
      const { id: keyId } = await key({ account_id: id });
      const other = 'other/model';
      for (const path of [`/api/keys/${keyId}`, `/api/accounts/${id}`]) {
        const limitsAfter = async (limits: unknown) => (await ok('PATCH', path, { body: { limits } })).limits;
        await limitsAfter({ requests_per_minute: 60, burst: { requests: 5, tokens: 7 } });
        await limitsAfter({ usd_per_month: '10', models: { [MODEL]: { tokens_per_day: 100 } } });
        assert.deepEqual(
          await limitsAfter({
            requests_per_minute: 30,
            burst: { requests: null },
            models: { [other]: { tokens_per_day: 1 } },
          }),
          {
            requests_per_minute: 30,
            usd_per_month: '10',
            burst: { tokens: 7 },
            models: { [MODEL]: { tokens_per_day: 100 }, [other]: { tokens_per_day: 1 } },
          },
          path,
        );
        assert.deepEqual(
          await limitsAfter({
            usd_per_month: null,
            burst: null,
            models: { [MODEL]: null, [other]: { tokens_per_day: null } },
          }),
          { requests_per_minute: 30 },
        );
        const ids = Array.from({ length: 60 }, (_, index) => index);
        const many = (prefix: string) =>
          Object.fromEntries(ids.map((at) => [`${prefix}/m${at}`, { tokens_per_day: 1 }]));
        await limitsAfter({ models: many('a') });
        const tooMany = await call('PATCH', path, { body: { limits: { models: many('b') } } });
        assertRefused(tooMany, 400, 'invalid_value', 'limits.models');
        assert.equal(await limitsAfter({ requests_per_minute: null, models: null }), null);
      }
    });

    test('users are created, become members of accounts, and are deleted', async () => {
      const { id: accountId } = await account();
      const email = `zoe-${accountId}@Example.com`;
      const user = await ok('POST', '/api/users', { body: { name: 'Zoë', email } });
      assert.equal(user.email, email.toLowerCase());
      assert.ok((await ok('GET', '/api/users')).data.some((one) => one.id === user.id));
      const path = `/api/accounts/${accountId}/members/${user.id}`;
      const member = await ok('PUT', path, { body: { role: 'member' } });
      assert.deepEqual([member.account_id, member.user, member.role], [accountId, user, 'member']);
      const owner = await ok('PUT', path, { body: { role: 'owner' } });
      assert.deepEqual((await ok('GET', `/api/accounts/${accountId}/members`)).data, [owner]);
      assertRefused(await call('PUT', path, { body: { role: 'member' } }), 409, 'last_owner');
      assertRefused(await call('DELETE', path), 409, 'last_owner');
      const { id: heir } = await ok('POST', '/api/users', { body: { name: 'h', email: `h-${email}` } });
      await ok('PUT', `/api/accounts/${accountId}/members/${heir}`, { body: { role: 'owner' } });
      assert.deepEqual(await ok('DELETE', path), { id: user.id, deleted: true });
      assertRefused(await call('DELETE', path), 404, 'not_found', 'user_id');
      await ok('PUT', path, { body: { role: 'owner' } });
      const promoted = await ok('PATCH', `/api/users/${user.id}`, { body: { operator: true } });
      assert.deepEqual(promoted, { ...user, operator: true });
      const last = await call('PATCH', `/api/users/${user.id}`, { body: { operator: false } });
      assertRefused(last, 409, 'last_operator');
      const { id: other } = await ok('POST', '/api/users', { body: { name: 'a', email: `a-${email}` } });
      await ok('PATCH', `/api/users/${other}`, { body: { operator: true } });
      assert.deepEqual(await ok('DELETE', `/api/users/${user.id}`), { id: user.id, deleted: true });
      assert.equal((await ok('GET', `/api/accounts/${accountId}/members`)).data.length, 1);
      assertRefused(await call('DELETE', `/api/users/${user.id}`), 404, 'not_found', 'user_id');
      assertRefused(
        await call('POST', '/api/users', { body: { name: 'a', email: 'nowhere' } }),
        400,
        'invalid_value',
        'email',
      );
    });

    test('plans are listed with their limits and numbers of accounts', async () => {
      const { data } = await ok('GET', '/api/plans');
      assert.deepEqual(
        data.map((plan) => ({ ...plan, accounts: 0 })),
        [
          {
            name: 'free',
            default: false,
            accounts: 0,
            weight: 1,
            limits: { requests_per_minute: 1000, models: { [MODEL]: { usd_per_month: '100000' } } },
          },
          { name: 'tiny', default: false, accounts: 0, weight: 1, limits: { tokens_per_day: 1 } },
          { name: 'big', default: true, accounts: 0, weight: 1, limits: {} },
        ],
      );
      assert.ok(first(data.slice(2)).accounts >= 1);
    });

    test('a request appears in the request log, its receipt, usage and limits', async () => {
      const { id: accountId } = await account({ plan: 'free' });
      const limits = { usd_per_month: '9999', tokens_per_month: 100_000 };
      const { key: text, id: keyId } = await key({ account_id: accountId, limits });
      const clientId = `mine ${accountId}`;
      const response = await managed.generate(text, { 'x-client-request-id': clientId });
      const { usage } = (await response.json()) as { usage: ResponseBody };
      assert.equal(response.status, 200);
      const requestId = response.headers.get('x-request-id') ?? '';

      const { data } = await ok('GET', `/api/requests?account_id=${accountId}`);
      const row = first(data);
      assert.deepEqual(
        [data.length, row.id, row.client_request_id, row.key_id, row.model, row.plan, row.state],
        [1, requestId, clientId, keyId, MODEL, 'free', 'settled'],
      );
      assert.deepEqual(
        [row.prompt_tokens, row.completion_tokens, row.http_status, row.finish_reason, row.billed],
        [usage.prompt_tokens, usage.completion_tokens, 200, 'length', true],
      );
      assert.deepEqual(row.price, { prompt: '500000', completion: '1000000', input_cache_read: null });
      const cost = usage.prompt_tokens / 2 + usage.completion_tokens;
      assert.equal(row.cost_usd, String(cost));

      const receipt = await ok('GET', `/api/receipts/${requestId}`);
      assert.deepEqual(receipt.request, row);
      assert.deepEqual(receipt.cost, [
        {
          what: 'prompt',
          tokens: usage.prompt_tokens,
          usd_per_million: '500000',
          usd: String(usage.prompt_tokens / 2),
        },
        {
          what: 'completion',
          tokens: usage.completion_tokens,
          usd_per_million: '1000000',
          usd: String(usage.completion_tokens),
        },
      ]);
      assert.deepEqual([receipt.retries, receipt.interrupted], [0, false]);
      const { messages, sampling, notes } = receipt.model_input;
      assert.deepEqual([messages, sampling.temperature, notes], [{ user: 1 }, 1, []]);
      const applied = (receipt.limits as ResponseBody[]).map((limit) => [
        limit.scope,
        limit.model,
        limit.limit,
        limit.bound,
      ]);
      assert.deepEqual(
        new Set(applied.map(String)),
        new Set(
          [
            ['account', null, 'requests_per_minute', 1000],
            ['account', MODEL, 'usd_per_month', '100000'],
            ['key', null, 'usd_per_month', '9999'],
            ['key', null, 'tokens_per_month', 100_000],
          ].map(String),
        ),
      );
      assert.deepEqual(await ok('GET', `/api/receipts/${requestId}`, { key: text }), receipt);
      const mine = `/api/receipts?client_request_id=${encodeURIComponent(clientId)}`;
      assert.deepEqual((await ok('GET', mine, { key: text })).data, [receipt]);
      assert.deepEqual((await ok('GET', `${mine}&account_id=${accountId}`)).data, [receipt]);
      assert.deepEqual((await ok('GET', mine)).data, [], 'the account of the admin key has none');

      const sums = await ok('GET', `/api/usage?by=account,model,key&account_id=${accountId}`);
      const sum = first(sums.data);
      assert.deepEqual(
        [sum.account_id, sum.model, sum.key_id, sum.day, sum.requests, sum.cost_usd, sum.billed_tokens],
        [accountId, MODEL, keyId, null, 1, String(cost), usage.total_tokens],
      );
      assert.ok(sum.ttft_ms.p50 > 0 && sum.ttft_ms.p50 <= sum.ttft_ms.p95);
      const byClient = (query: string) => ok('GET', `/api/usage?by=client&account_id=${accountId}${query}`);
      const [ofClient, ...others] = (await byClient('')).data;
      assert.deepEqual(
        [ofClient?.client, ofClient?.requests, ofClient?.ttft_ms, others],
        ['Node.js', 1, null, []],
      );
      assert.equal(row.client, 'Node.js');
      const [byOwner] = (await ok('GET', `/api/usage?by=member,tag&account_id=${accountId}`)).data;
      assert.deepEqual([byOwner?.member_id, byOwner?.tag, byOwner?.requests], [null, null, 1]);
      assert.deepEqual((await byClient('&client=curl')).data, []);
      assert.deepEqual((await byClient('&client=')).data, [], 'every request has a client');
      const found = async (client: string) =>
        (await ok('GET', `/api/requests?account_id=${accountId}&client=${client}`)).data.length;
      assert.deepEqual([await found('Node.js'), await found('curl'), await found('')], [1, 0, 0]);
      // The last use of keys is written in the background.
      const lastUse = async () =>
        (await ok('GET', `/api/keys?account_id=${accountId}`)).data[0]?.last_used_client;
      await until(async () => (await lastUse()) !== null);
      const [usedKey] = (await ok('GET', `/api/keys?account_id=${accountId}`)).data;
      assert.deepEqual([usedKey?.last_used_client, usedKey?.last_used_ip], ['Node.js', '127.0.0.1']);
      const today = new Date(row.started_at).toISOString().slice(0, 10);
      const days = await ok('GET', `/api/usage?by=day&key_id=${keyId}&from=${today}`);
      assert.deepEqual(
        days.data.map(({ day, requests }) => [day, requests]),
        [[today, 1]],
      );
      assert.deepEqual(
        (await ok('GET', `/api/usage?by=day&key_id=${keyId}&to=${today}&from=2026-01-01`)).data,
        [],
      );
      assert.equal(
        first((await ok('GET', `/api/usage?account_id=${accountId}&model=other/model`)).data).requests,
        0,
      );

      const limitsPath = `/api/limits?account_id=${accountId}&key_id=${keyId}`;
      // The reservation is released after the response.
      await until(async () => {
        const { data } = await ok('GET', limitsPath);
        return data.some((limit) => limit.limit === 'usd_per_month' && limit.used === String(cost));
      });
      const statuses = (await ok('GET', `${limitsPath}&model=${MODEL}`)).data;
      const statusOf = (scope: string, limit: string) =>
        first(statuses.filter((status) => status.scope === scope && status.limit === limit));
      assert.deepEqual(
        [statusOf('account', 'usd_per_month').used, statusOf('account', 'usd_per_month').bound],
        [String(cost), '100000'],
      );
      assert.deepEqual(
        [statusOf('key', 'tokens_per_month').used, statusOf('key', 'tokens_per_month').bound],
        [usage.total_tokens, 100_000],
      );
      assert.match(statusOf('key', 'tokens_per_month').resets_at, /^\d{4}-\d\d-01T00:00:00\.000Z$/);
      assert.equal(statusOf('account', 'requests_per_minute').bound, 1000);
      assert.deepEqual(statusOf('account', 'requests_per_minute').last_minute, { used: 1, bound: 1000 });
      assert.equal(statusOf('key', 'tokens_per_month').last_minute, null);
    });

    test('requests, receipts, usage, refusals and the audit log have the names of keys and accounts', async () => {
      const { id: accountId } = await account({ name: 'Named' });
      const { id: keyId, key: text } = await key({ account_id: accountId, name: 'production' });
      assert.equal((await managed.generate(text)).status, 200);
      assert.equal((await managed.generate(text, {}, 'hello', { model: 'acme/none' })).status, 404);
      const of = `account_id=${accountId}`;
      const names = { key_name: 'production', account_name: 'Named' };
      const request = first((await ok('GET', `/api/requests?${of}`)).data);
      const rows = [
        request,
        (await ok('GET', `/api/receipts/${request.id}`)).request,
        first((await ok('GET', `/api/usage?${of}&by=account,key`)).data),
        first((await ok('GET', `/api/refusals?${of}`)).data),
      ];
      for (const { key_name, account_name } of rows) assert.deepEqual({ key_name, account_name }, names);
      const total = first((await ok('GET', `/api/usage?${of}`)).data);
      assert.deepEqual([total.key_name, total.account_name], [null, null]);
      await ok('PATCH', `/api/keys/${keyId}`, { body: { name: 'renamed' } });
      const entry = first((await ok('GET', `/api/audit?${of}&action=key.update`)).data);
      assert.equal(typeof entry.actor_name, 'string');
      assert.deepEqual([entry.subject_name, entry.account_name], ['renamed', 'Named']);
      assert.equal(first((await ok('GET', `/api/requests?${of}`)).data).key_name, 'renamed');
    });

    test('a strict key refuses what other keys ignore with a note', async () => {
      const { id: accountId } = await account();
      const { key: text, ...created } = await key({ account_id: accountId, strict: true });
      assert.equal(created.strict, true);
      const noted = () => managed.generate(text, {}, 'hello', { prediction: {} });
      const refused = await noted();
      const { error } = (await refused.json()) as ResponseBody;
      assert.deepEqual(
        [refused.status, error.code, error.param],
        [400, 'unsupported_parameter', 'prediction'],
      );
      const changed = await ok('PATCH', `/api/keys/${created.id}`, { body: { strict: false } });
      assert.equal(changed.strict, false);
      assert.equal((await noted()).headers.get('x-sluice-notes'), 'prediction ignored');
    });

    test('a running request is listed, and its receipt has no cost yet', async () => {
      const { id: accountId } = await account();
      const { key: text } = await key({ account_id: accountId });
      const stream = await managed.stream(text);
      const running = await ok('GET', `/api/requests?account_id=${accountId}&state=open`);
      const row = first(running.data);
      assert.deepEqual([row.id, row.cost_usd, row.billed], [stream.requestId, '0', false]);
      const receipt = await ok('GET', `/api/receipts/${row.id}`, { key: text });
      assert.deepEqual([receipt.request.state, receipt.cost, receipt.interrupted], ['open', [], false]);
      await stream.disconnect();
      await until(async () => {
        const { data } = await ok(
          'GET',
          `/api/requests?account_id=${accountId}&error_code=client_disconnected`,
        );
        return data.length === 1 && data[0]?.state === 'settled' && data[0].billed;
      });
    });

    test('a key of another account cannot read a receipt, by request ID or client request ID', async () => {
      const { id: mine } = await account();
      const { id: theirs } = await account();
      const { key: text } = await key({ account_id: mine });
      const { key: stranger } = await key({ account_id: theirs });
      const response = await managed.generate(text, { 'x-client-request-id': 'shared' });
      await response.text();
      const id = response.headers.get('x-request-id') ?? '';
      assert.equal((await call('GET', `/api/receipts/${id}`, { key: text })).status, 200);
      assertRefused(await call('GET', `/api/receipts/${id}`, { key: stranger }), 404, 'not_found', 'id');
      const unknown = '01a2008d-96fe-71ff-ae7d-c1f32144809f';
      for (const nothing of [unknown, 'x', 'key_0', '%00', "'", 'x'.repeat(65)]) {
        assertRefused(
          await call('GET', `/api/receipts/${nothing}`, { key: stranger }),
          404,
          'not_found',
          'id',
        );
      }
      const shared = '/api/receipts?client_request_id=shared';
      assert.deepEqual((await ok('GET', shared, { key: stranger })).data, []);
      for (const other of [mine, 'acct_none']) {
        const refused = await call('GET', `${shared}&account_id=${other}`, { key: stranger });
        assertRefused(refused, 404, 'not_found', 'account_id');
      }
      assert.equal((await ok('GET', '/api/receipts?client_request_id=shared', { key: text })).data.length, 1);
      const { key: second } = await key({ account_id: mine });
      assert.equal((await call('GET', `/api/receipts/${id}`, { key: second })).status, 200);
    });

    test('requests are listed in pages, newest first, and filtered', async () => {
      const { id: accountId } = await account();
      const { key: text, id: keyId } = await key({ account_id: accountId });
      const ids: string[] = [];
      for (let index = 0; index < 7; index += 1) {
        const response = await managed.generate(text);
        await response.text();
        ids.unshift(response.headers.get('x-request-id') ?? '');
      }
      const list = (query: string) => ok('GET', `/api/requests?account_id=${accountId}${query}`);
      await fc.assert(
        fc.asyncProperty(fc.integer({ min: 1, max: 8 }), async (limit) => {
          const listed: string[] = [];
          let cursor: string | null = '';
          while (cursor !== null) {
            const page = await list(`&limit=${limit}${cursor && `&cursor=${cursor}`}`);
            listed.push(...page.data.map(({ id }) => id));
            assert.ok(page.data.length <= limit);
            cursor = page.next_cursor;
          }
          assert.deepEqual(listed, ids);
        }),
        { numRuns: 4 },
      );
      const from = new Date(Date.now() + 60_000).toISOString();
      for (const [query, count] of [
        [`&key_id=${keyId}`, 7],
        ['&key_id=key_0', 0],
        [`&model=${MODEL}&state=settled&status_class=2`, 7],
        ['&state=open', 0],
        ['&outcome=completed', 7],
        ['&outcome=error', 0],
        ['&status_class=5', 0],
        ['&error_code=client_disconnected', 0],
        [`&from=${from}`, 0],
        [`&to=${from}`, 7],
        ['&from=2026-01-01T00:00:00%2B02:00', 7],
        ['&min_tokens=1&min_cost_usd=0', 7],
        ['&min_tokens=100000', 0],
        ['&min_cost_usd=999999.999999999999', 0],
        ['&min_duration_ms=86400000', 0],
        ['&min_ttft_ms=86400000', 0],
        ['&note=retried', 0],
      ] as const) {
        assert.equal((await list(query)).data.length, count, query);
      }
    });

    test('pages add up to the whole list', async () => {
      for (let index = 0; index < 3; index += 1) await account();
      for (const path of ['/api/accounts', '/api/keys', '/api/users', '/api/audit']) {
        const whole = await ok('GET', `${path}?limit=1000`);
        assert.equal(whole.next_cursor, null);
        const listed: unknown[] = [];
        let cursor: string | null = '';
        while (cursor !== null) {
          const page = await ok('GET', `${path}?limit=2${cursor && `&cursor=${cursor}`}`);
          listed.push(...page.data);
          cursor = page.next_cursor;
        }
        // The last use of a key may be written meanwhile.
        const ids = (items: readonly unknown[]) => items.map((item) => (item as { id: unknown }).id);
        assert.deepEqual(ids(listed), ids(whole.data), path);
      }
    });

    test('a key with a past expiration can be created and changed, and is expired', async () => {
      const { key: text, ...created } = await key({ expires_at: '2020-01-01T00:00:00+01:00' });
      assert.deepEqual([created.status, created.expires_at], ['expired', '2019-12-31T23:00:00.000Z']);
      assert.equal((await managed.generate(text)).status, 401);
      const path = `/api/keys/${created.id}`;
      const { name, expires_at, allowed_models, limits } = await ok('GET', path);
      // Like a client that sends all fields back.
      assert.deepEqual(
        await ok('PATCH', path, { body: { name, expires_at, allowed_models, limits } }),
        await ok('GET', path),
      );
      assert.equal((await ok('PATCH', path, { body: { expires_at: null } })).status, 'live');
      assert.equal((await managed.generate(text)).status, 200);
      await ok('PATCH', path, { body: { expires_at: '0000-01-01T00:00:00+01:00' } });
      assert.equal((await managed.generate(text)).status, 401);
    });

    test('usage of an empty range is empty, and a page of hours covers a week', async () => {
      for (const by of ['day', 'hour', 'hour,model']) {
        const { data, next_cursor } = await ok('GET', `/api/usage?by=${by}&from=2026-02-02&to=2026-02-01`);
        assert.deepEqual([data, next_cursor], [[], null]);
      }
      assert.equal(first((await ok('GET', '/api/usage?from=2026-02-02&to=2026-02-02')).data).requests, 0);
      const { key: text, account_id: accountId } = await key();
      await (await managed.generate(text)).text();
      const now = Date.now();
      const day = (offset: number) => new Date(now + offset * 86_400_000).toISOString().slice(0, 10);
      const path = `/api/usage?by=hour&account_id=${accountId}&from=${day(-13)}&to=${day(2)}`;
      const pages: number[] = [];
      let cursor: string | null = '';
      while (cursor !== null) {
        const page = await ok('GET', `${path}${cursor && `&cursor=${cursor}`}`);
        pages.push(page.data.reduce((sum, { requests }) => sum + requests, 0));
        cursor = page.next_cursor;
      }
      assert.equal(pages.length, 3);
      assert.deepEqual([pages[0], pages[2]], [0, 0]);
      assert.ok((pages[1] ?? 0) > 0);
      assert.equal((await ok('GET', '/api/usage?by=day&from=0000-01-01&to=9999-12-31')).next_cursor, null);
      const { next_cursor } = await ok('GET', '/api/usage?by=hour&from=0000-01-01&to=9999-12-31');
      assert.notEqual(next_cursor, null);
    });

    test('an unknown field of a query or a body suggests the nearest, or the names that are accepted', async () => {
      const limits = { models: { 'a/b': { request_per_minute: 1 } } };
      for (const [method, path, body, message] of [
        ['POST', '/api/accounts', { name: 'a', plans: 'x' }, 'Unknown field: `plans`. Did you mean `plan`?'],
        ['GET', '/api/accounts?limits=1', undefined, 'Unknown field: `limits`. Did you mean `limit`?'],
        [
          'POST',
          '/api/keys',
          { name: 'a', limits },
          'Unknown field: `limits.models.a/b.request_per_minute`. Did you mean `requests_per_minute`?',
        ],
        [
          'POST',
          '/api/keys',
          { name: 'a', limits: { models: { small: {} } } },
          '`limits.models.small` must be <namespace>/<model_name>, of letters, digits, ".", "_", "-" and ":".',
        ],
      ] as const) {
        const refused = await managed.call(method, path, { body });
        const { error } = refused.body as { error: { message: string } };
        assert.deepEqual([refused.status, error.message], [400, message]);
      }
    });

    test('every error of a query or a body names its field', async () => {
      const { id } = await account();
      const { id: keyId } = await key({ account_id: id });
      // The request, its body, and the status, code and field of its error.
      const cases: readonly (readonly [string, unknown, string])[] = [
        ['POST /api/accounts', '{', '400 invalid_json'],
        ['POST /api/accounts', undefined, '400 invalid_json'],
        ['POST /api/accounts', [], '400 invalid_json'],
        ['POST /api/accounts', {}, '400 missing_required_parameter name'],
        ['POST /api/accounts', { name: 5 }, '400 invalid_type name'],
        ['POST /api/accounts', { name: null }, '400 invalid_type name'],
        ['POST /api/accounts', { name: ' ' }, '400 invalid_value name'],
        ['POST /api/accounts', { name: 'a', plan: 'gold' }, '404 not_found plan'],
        ['POST /api/accounts', { name: 'a', colour: 1 }, '400 unsupported_parameter colour'],
        [`PATCH /api/accounts/${id}`, { status: 'gone' }, '400 invalid_value status'],
        ['PATCH /api/accounts/default', { status: 'closed' }, '409 conflict status'],
        ['PATCH /api/accounts/acct_0', {}, '404 not_found id'],
        ['GET /api/accounts/acct_0', undefined, '404 not_found id'],
        ['GET /api/accounts/a%00b', undefined, '404 not_found id'],
        ['GET /api/accounts?limit=0', undefined, '400 invalid_value limit'],
        ['GET /api/accounts?limit=x', undefined, '400 invalid_type limit'],
        ['GET /api/accounts?limit=1&limit=2', undefined, '400 invalid_type limit'],
        ['GET /api/accounts?cursor=x', undefined, '400 invalid_value cursor'],
        ['GET /api/accounts?name=x', undefined, '400 unsupported_parameter name'],
        ['POST /api/keys', { name: 'a', account_id: 'acct_0' }, '404 not_found account_id'],
        ['POST /api/keys', { name: 'a', account_id: 'a\0' }, '400 invalid_value account_id'],
        ['POST /api/keys', { name: 'a', kind: 'root' }, '400 invalid_value kind'],
        ['POST /api/keys', { name: 'a', expires_at: 'soon' }, '400 invalid_value expires_at'],
        ['POST /api/keys', { name: 'a', allowed_models: [] }, '400 invalid_value allowed_models'],
        [
          'POST /api/keys',
          { name: 'a', allowed_models: ['a/b', 'x'] },
          '400 invalid_value allowed_models[1]',
        ],
        ['POST /api/keys', { name: 'a', limits: 5 }, '400 invalid_type limits'],
        ['POST /api/keys', { name: 'a', limits: { tokens: 5 } }, '400 unsupported_parameter limits.tokens'],
        [
          'POST /api/keys',
          { name: 'a', limits: { usd_per_month: 5 } },
          '400 invalid_type limits.usd_per_month',
        ],
        [
          'POST /api/keys',
          { name: 'a', limits: { models: { 'a/b': { tokens_per_day: 0 } } } },
          '400 invalid_value limits.models.a/b.tokens_per_day',
        ],
        [
          'POST /api/keys',
          { name: 'a', limits: { models: { ['__proto__']: { tokens_per_day: 5 } } } },
          '400 unsupported_parameter limits.models.__proto__',
        ],
        ['GET /api/accounts?__proto__=x', undefined, '400 unsupported_parameter __proto__'],
        [`PATCH /api/keys/${keyId}`, { kind: 'admin' }, '400 unsupported_parameter kind'],
        ['PATCH /api/keys/key_0', { name: 'a' }, '404 not_found id'],
        [`PATCH /api/keys/${managed.test.key}`, { name: 'a' }, '404 not_found id'],
        [`POST /api/keys/${managed.test.key}/revoke`, undefined, '404 not_found id'],
        ['GET /api/keys/key_0', undefined, '404 not_found id'],
        [`PUT /api/accounts/${id}/members/user_0`, { role: 'boss' }, '400 invalid_value role'],
        [`PUT /api/accounts/${id}/members/user_0`, { role: 'owner' }, '404 not_found user_id'],
        ['GET /api/accounts/acct_0/members', undefined, '404 not_found id'],
        ['GET /api/usage?by=day,day', undefined, '400 invalid_value by'],
        ['GET /api/usage?by=colour', undefined, '400 invalid_value by'],
        ['GET /api/usage?from=2026-02-30', undefined, '400 invalid_value from'],
        ['GET /api/usage?cursor=2026-02-02', undefined, '400 invalid_value cursor'],
        ['GET /api/usage?by=key&cursor=WzFd', undefined, '400 invalid_value cursor'],
        ['GET /api/usage?by=day&cursor=WyJhIl0', undefined, '400 invalid_value cursor'],
        ['GET /api/usage?cursor=WzFd', undefined, '400 invalid_value cursor'],
        ['GET /api/usage?top=3', undefined, '400 invalid_value top'],
        ['GET /api/usage?by=day,key&top=3', undefined, '400 invalid_value top'],
        ['GET /api/usage?by=key&top=1001', undefined, '400 invalid_value top'],
        ['GET /api/usage?model=a%00', undefined, '400 invalid_value model'],
        ['GET /api/limits', undefined, '400 missing_required_parameter account_id'],
        ['GET /api/limits?account_id=acct_0', undefined, '404 not_found id'],
        [`GET /api/limits?account_id=default&key_id=${keyId}`, undefined, '404 not_found id'],
        ['GET /api/requests?limit=201', undefined, '400 invalid_value limit'],
        ['GET /api/requests?cursor=x', undefined, '400 invalid_value cursor'],
        ['GET /api/requests?from=2026-01-01', undefined, '400 invalid_value from'],
        ['GET /api/requests?state=lost', undefined, '400 invalid_value state'],
        ['GET /api/requests?min_duration_ms=0', undefined, '400 invalid_value min_duration_ms'],
        ['GET /api/requests?min_ttft_ms=1.5', undefined, '400 invalid_type min_ttft_ms'],
        ['GET /api/requests?min_tokens=1e10', undefined, '400 invalid_value min_tokens'],
        ['GET /api/requests?min_cost_usd=1e3', undefined, '400 invalid_value min_cost_usd'],
        ['GET /api/requests?note=slow', undefined, '400 invalid_value note'],
        ['GET /api/receipts', undefined, '400 missing_required_parameter client_request_id'],
        ['GET /api/receipts?client_request_id=%C3%BC', undefined, '400 invalid_value client_request_id'],
        ['GET /api/audit?action=%00', undefined, '400 invalid_value action'],
      ];
      for (const [request, body, expected] of cases) {
        const [method = '', path = ''] = request.split(' ');
        const [status, code = '', param = null] = expected.split(' ');
        const response = await call(method, path, { body });
        assertRefused(response, Number(status), code, param, `${request} ${JSON.stringify(body)}`);
      }
    });

    test('a body with more values, models or bytes than any change needs is refused before it is checked', async () => {
      const models = (count: number) =>
        Object.fromEntries(
          Array.from({ length: count }, (_, index) => [`a/m${index}`, { tokens_per_day: 1 }]),
        );
      const create = (count: number, name = 'a') =>
        call('POST', '/api/keys', { body: { name, limits: { models: models(count) } } });
      assert.equal((await create(100)).status, 201);
      assertRefused(await create(101), 400, 'invalid_value', 'limits.models');
      assertRefused(await create(2000), 400, 'invalid_json', null);
      assertRefused(await create(1, 'a'.repeat(600_000)), 413, 'request_too_large', null);
    });

    test('an invitation is created, listed and withdrawn', async () => {
      const { id: account_id } = await account();
      const body = { account_id, email: 'Zoe@example.com', role: 'owner' };
      const { link, mailed, ...created } = await ok('POST', '/api/invitations', { body });
      assert.deepEqual([new URL(link).pathname, mailed], ['/invitation', false]);
      assert.deepEqual((await ok('GET', `/api/invitations?account_id=${account_id}`)).data, [created]);
      await ok('DELETE', `/api/invitations/${created.id}`);
      assert.deepEqual((await ok('GET', `/api/invitations?account_id=${account_id}`)).data, []);
    });

    test('every endpoint that accepts keys was called, and its response matched the schema', async () => {
      for (const path of ['models', 'engines', 'load', 'health']) await ok('GET', `/api/${path}`);
      await ok('GET', '/api/refusals');
      await ok('GET', '/api/refusals/hours');
      await ok('GET', '/api/catalog');
      for (const path of ['alerts', 'alerts/settings']) await ok('GET', `/api/${path}`);
      await ok('POST', '/api/alerts/test');
      const until = new Date(Date.now() + 3_600_000).toISOString();
      await ok('POST', '/api/alerts/silence', { body: { type: 'disk_low', until } });
      await ok('POST', '/api/alerts/unsilence', { body: { type: 'disk_low' } });
      const replicas = [{ url: 'http://127.0.0.1:9', dialect: 'vllm' }];
      await ok('POST', '/api/models', { body: { id: 'test/far', replicas } });
      const replica = { url: 'http://127.0.0.1:1', dialect: 'vllm' };
      await ok('POST', '/api/replicas', { body: { model: 'test/far', replica } });
      await ok('POST', '/api/replicas/remove', { body: { model: 'test/far', name: 'test/far#0' } });
      await ok('POST', '/api/models/default', { body: { model: 'test/far' } });
      await ok('POST', '/api/models/update', { body: { model: 'test/far', context_tokens: 4096 } });
      await ok('POST', '/api/models/remove', { body: { model: 'test/far' } });
      await ok('POST', '/api/models/load', { body: { model: MODEL } });
      const embedded = { model: MODEL, name: `embedded:${MODEL}` };
      await ok('POST', '/api/engines/drain', { body: embedded });
      await ok('POST', '/api/engines/resume', { body: embedded });
      await ok('POST', '/api/engines/restart', { body: embedded });
      await ok('POST', '/api/models/unload', { body: { model: MODEL } });
      const withKeys = API_ENDPOINTS.filter(({ access }) => access !== 'open' && access !== 'signed-in');
      const all = withKeys.map(({ method, path }) => `${method} ${path}`);
      assert.deepEqual([...managed.called].sort(), all.sort());
    });
  });
}
