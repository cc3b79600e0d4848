/** What needs attention on the Overview page, and its hours. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ItemOf, ResponseOf } from '../../console/src/api/client.ts';
import { problemsOf, type Findings } from '../../console/src/pages/overview/problems.ts';

const NOW = Date.parse('2026-11-21T16:20:00Z');

// Objects with the fields that are read.
const model = (fields: object) =>
  ({ id: 'acme/small', state: 'ready', reason: null, fraction: null, ...fields }) as unknown as Model;
type Model = ItemOf<'listServedModels'>;
const key = (fields: object) =>
  ({ id: 'key_1', name: 'app', status: 'live', expires_at: null, limits: null, ...fields }) as unknown as Key;
type Key = ItemOf<'listKeys'>;
const refusal = (code: string, count: number) =>
  ({ code, count, message: 'No.' }) as unknown as ItemOf<'listRefusals'>;

const NOTHING: Findings = {
  nowMs: NOW,
  models: [model({})],
  causes: [],
  refusals: [],
  keys: [key({})],
  spend: [],
  limits: [],
  service: null,
  requests: (code) => `/requests?status=${code}`,
  refusedPath: '/requests?status=refused',
};

const textsOf = (findings: Partial<Findings>) =>
  problemsOf({ ...NOTHING, ...findings }).map(({ level, text }) => `${level}: ${text}`);

test('a service with a ready model and nothing else has no problems', () => {
  assert.deepEqual(textsOf({}), []);
  assert.deepEqual(textsOf({ models: [model({ state: 'idle' }), model({ state: 'unloaded' })] }), []);
});

test('the worst problems come first, each with where it is solved', () => {
  const problems = problemsOf({
    ...NOTHING,
    models: [model({}), model({ id: 'acme/big', state: 'down', reason: 'Out of memory' })],
    keys: [key({ expires_at: '2026-11-23T16:20:00Z' })],
    refusals: [refusal('invalid_api_key', 3), refusal('tokens_per_minute', 1), refusal('invalid_api_key', 4)],
    causes: [
      { code: 'context_length_exceeded', count: 1, meaning: 'Too long.', isOurs: false },
      { code: 'engine_unavailable', count: 2, meaning: 'No replica.', isOurs: true },
    ],
  });
  assert.deepEqual(
    problems.map(({ level, text, to }) => [level, text, to]),
    [
      ['bad', 'acme/big is down: Out of memory.', '/models?q=acme%2Fbig'],
      [
        'bad',
        '2 requests failed with `engine_unavailable`: No replica.',
        '/requests?status=engine_unavailable',
      ],
      [
        'warn',
        '1 request failed with `context_length_exceeded`: Too long.',
        '/requests?status=context_length_exceeded',
      ],
      ['warn', '7 requests were refused with `invalid_api_key`: No.', '/requests?status=refused'],
      ['warn', '1 request was refused with `tokens_per_minute`: No.', '/requests?status=refused'],
      ['warn', 'The key app expires in 2 days.', '/keys?key=key_1'],
    ],
  );
});

test('a model that loads is a problem if it is the only one', () => {
  const loading = model({ state: 'downloading', fraction: 0.429 });
  assert.deepEqual(textsOf({ models: [loading] }), ['bad: acme/small is downloading (42%).']);
  assert.deepEqual(textsOf({ models: [loading, model({})] }), ['warn: acme/small is downloading (42%).']);
  assert.deepEqual(textsOf({ models: [model({ state: 'unloaded' })] }), ['bad: acme/small is not loaded.']);
  assert.deepEqual(textsOf({ models: [] }), ['warn: No models are configured.']);
});

test('budgets of which 80% are used are problems, of the account and of keys', () => {
  const limit = { scope: 'account', model: null, limit: 'usd_per_month', bound: '100', used: '79' };
  const spend = (cost_usd: string) => [{ key_id: 'key_1', cost_usd }] as unknown as Findings['spend'];
  const limits = (used: string) => [{ ...limit, used }] as unknown as Findings['limits'];
  const keys = [key({ limits: { usd_per_month: '10' } })];
  assert.deepEqual(textsOf({ limits: limits('79'), keys, spend: spend('7.9') }), []);
  assert.deepEqual(textsOf({ limits: limits('100'), keys, spend: spend('8') }), [
    'bad: Spend per month: $100.00 of $100.00 are used.',
    'warn: The key app has spent $8.00 of its $10.00 of this month.',
  ]);
});

test('operators see failed checks and alerts that nothing else shows', () => {
  const alert = (type: string, resolved_at: string | null) => ({
    id: type,
    type,
    severity: 'critical',
    title: `The alert ${type}`,
    resolved_at,
  });
  const health = {
    database: { kind: 'sqlite', reachable: true, writable: false },
    ledger: { writable: true, failing_for_ms: null, waiting: 0, reason: null },
    limits_store: { kind: 'memory', reachable: true },
    instances: 1,
    disk: { free_bytes: null, total_bytes: null },
    refused_requests: [],
    backup: null,
    mail: false,
    providers: [],
  } as unknown as ResponseOf<'readHealth'>;
  const alerts = [
    alert('budget_80', null),
    alert('budget_100', '2026-11-21T00:00:00Z'),
    alert('disk_low', null),
  ];
  assert.deepEqual(textsOf({ service: { health, alerts: alerts as unknown as ItemOf<'listAlerts'>[] } }), [
    'bad: Database: SQLite, in the data directory.',
    'bad: The alert budget_80.',
  ]);
});
