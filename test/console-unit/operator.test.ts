import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { limitLeft, limitsSet, limitText } from '../../console/src/format/limits.ts';
import {
  changesOf,
  actionLabel,
  foldKindOf,
  groupText,
  partsOf,
  standaloneLabel,
} from '../../console/src/audit/audit-texts.ts';
import { fold } from '../../console/src/components/fold.ts';
import { checksOf } from '../../console/src/health/health-checks.ts';
import { recent, smooth } from '../../console/src/pages/operations/load-figures.ts';
import { ROOT } from '../docs/markdown.ts';

type Second = Parameters<typeof recent>[0][number];
type Health = Parameters<typeof checksOf>[0];
type Model = NonNullable<Parameters<typeof checksOf>[1]>[number];

describe('audit log texts', () => {
  test('an unknown action is shown by name', () => {
    assert.equal(actionLabel('moon.landing'), 'moon.landing');
    assert.equal(actionLabel('key.revoke'), 'Revoked key');
  });

  test('adjacent entries about playground keys of one actor are a group that can be expanded', () => {
    const at = (id: string, action: string, purpose: string, actor = 'user:u') => ({
      ...entry(action, { purpose }),
      id,
      actor,
    });
    const entries = [
      at('9', 'key.create', 'playground'),
      at('8', 'key.revoke', 'playground'),
      at('7', 'key.create', 'playground'),
      at('6', 'key.create', 'playground', 'user:v'),
      at('5', 'key.create', 'api'),
      at('4', 'key.create', 'playground'),
    ];
    const ids = (expanded: string[]) =>
      fold(entries, foldKindOf, (group) => group.some(({ id }) => expanded.includes(id))).map(
        ({ entry: { id }, group }) => `${id}${group === null ? '' : ` +${group.length - 1}`}`,
      );
    assert.deepEqual(ids([]), ['9 +2', '6', '5', '4']);
    assert.deepEqual(ids(['9', '6']), ['9 +2', '9', '8', '7', '6', '5', '4']);
    assert.deepEqual(
      fold([], foldKindOf, () => true),
      [],
    );
    assert.equal(groupText(entries.slice(0, 3)), 'Created 2 and revoked 1 playground key');
    assert.equal(groupText(entries.slice(2, 4)), 'Created 2 playground keys');
  });

  test('actors and subjects are split at the first colon', () => {
    assert.deepEqual(partsOf('cli:ops:night'), { kind: 'cli', id: 'ops:night' });
    assert.deepEqual(partsOf('service'), { kind: 'service', id: '' });
  });

  test('changes show the old value, for entries with one or several values', () => {
    const renamed = entry('account.rename', { from: 'Acme', to: 'Acme Ltd' });
    assert.deepEqual(changesOf(renamed), [{ field: 'Name', from: 'Acme', to: 'Acme Ltd' }]);
    const changed = entry('key.update', {
      allowed_models: { from: null, to: ['a/b', 'a/c'] },
      limits: { from: { requestsPerMinute: 60 }, to: null },
    });
    assert.deepEqual(changesOf(changed), [
      { field: 'Models', from: 'All', to: 'a/b, a/c' },
      { field: 'Limits', from: '60 requests per minute', to: 'None' },
    ]);
  });

  test('created resources have no old value', () => {
    const created = entry('account.create', { name: 'Acme', plan: null });
    assert.deepEqual(changesOf(created), [
      { field: 'Name', from: null, to: 'Acme' },
      { field: 'Plan', from: null, to: 'Default plan' },
    ]);
  });

  test('details of sign-ins, links and members have labels', () => {
    const labels = (action: string, detail: Record<string, unknown>) =>
      changesOf(entry(action, detail)).map(({ field, to }) => `${field}: ${to}`);
    assert.deepEqual(labels('user.sign_in_refused', { at: 'password' }), ['Method: password']);
    assert.deepEqual(labels('user.change_password', { by_link: true }), ['Via link: Yes']);
    assert.deepEqual(labels('user.add_provider', { provider: 'github' }), ['Provider: github']);
    assert.deepEqual(labels('invitation.accept', { user: 'p1', role: 'owner' }), [
      'User ID: p1',
      'Role: owner',
    ]);
    assert.deepEqual(labels('key.create', { purpose: 'api' }), ['Purpose: api']);
    assert.deepEqual(labels('engine.restart', { replica: 'a/b' }), ['Replica: a/b']);
    assert.deepEqual(labels('model.update', { prompt: '0.5', input_cache_read: null, contextTokens: 512 }), [
      'Prompt price: 0.5',
      'Cached prompt price: Same as the prompt price',
      'Context length: 512',
    ]);
  });

  test('the label of an action without its subject ends with an ellipsis if a name would follow', () => {
    assert.equal(standaloneLabel('user.sign_in'), 'Signed in as …');
    assert.equal(standaloneLabel('user.sign_in_refused'), 'Rejected sign-in for …');
    assert.equal(standaloneLabel('key.revoke'), 'Revoked key');
  });

  test('limits of a plan are shown as text, model limits by model name', () => {
    const to = { usdPerMonth: '12.5', burst: { requests: 3 }, models: { 'a/b': { tokensPerDay: 9 } } };
    const [change] = changesOf(entry('plan.change', { from: {}, to }));
    assert.deepEqual(change, {
      field: 'Limits',
      from: 'No limits',
      to: '$12.50 per month (UTC), separate limits for a/b',
    });
  });

  function entry(action: string, detail: Record<string, unknown>): Parameters<typeof changesOf>[0] {
    const names = { actor_name: null, subject_name: null, account_name: null };
    return {
      id: '',
      at: '',
      actor: 'service',
      ip: null,
      action,
      subject: '',
      account_id: null,
      ...names,
      detail,
    };
  }
});

describe('limit texts', () => {
  test('list the limits that are set, in display order', () => {
    const set = limitsSet({ usd_per_month: '2500', requests_per_minute: 600, tokens_per_day: undefined });
    assert.deepEqual(
      set.map(({ limit, bound }) => limitText(limit, bound)),
      ['600 requests per minute', '$2,500.00 per month (UTC)'],
    );
  });

  test('remaining amounts of money are exact', () => {
    const left = limitLeft({ limit: 'usd_per_month', bound: '0.3', used: '0.1' });
    assert.equal(left, '$0.20');
    assert.equal(limitLeft({ limit: 'usd_per_month', bound: '1', used: '0.999999' }), '$0.000001');
    assert.equal(limitLeft({ limit: 'usd_per_month', bound: '1', used: '0.999999999999' }), '<$0.000001');
  });

  test('an exceeded limit has 0 left', () => {
    assert.equal(limitLeft({ limit: 'tokens_per_minute', bound: 1000, used: 1700 }), '0');
    assert.equal(limitLeft({ limit: 'tokens_per_minute', bound: 20_000, used: 1700 }), '18,300');
  });
});

describe('load figures', () => {
  test('rates are averages over the last seconds', () => {
    const seconds = [second({ requests: 100 }), second({ requests: 4, prompt_tokens: 10 }), second({})];
    const { requestsPerSecond, tokensPerSecond } = recent(seconds, 2);
    assert.equal(requestsPerSecond, 2);
    assert.equal(tokensPerSecond, 5);
  });

  test('without finished requests there is no error rate', () => {
    assert.equal(recent([second({}), second({})], 2).errorShare, null);
  });

  test('the error rate is over all requests, not an average of the seconds', () => {
    const seconds = [second({ requests: 9 }), second({ requests: 1, errors: 1 })];
    assert.equal(recent(seconds, 2).errorShare, 0.1);
  });

  test('the moving average spreads a peak over the following seconds', () => {
    assert.deepEqual(smooth([0, 6, 0, 0, 0], 3), [0, 3, 2, 2, 0]);
  });

  function second(values: Partial<Second>): Second {
    const nothing = { requests: 0, errors: 0, prompt_tokens: 0, completion_tokens: 0, ttft_ms: null };
    return { at: '2026-11-21T16:11:48.000Z', ...nothing, ...values };
  }
});

describe('health checks', () => {
  const BACKUP = {
    every_hours: 24,
    keep: 7,
    last_at: '2026-11-21T16:11:48.000Z',
    failed_at: null,
    reason: null,
  };

  const HEALTHY: Health = {
    version: '1.0.0',
    node_version: '26.10.0',
    started_at: '2026-11-21T16:11:48.000Z',
    instance: 'one',
    instances: 1,
    database: { kind: 'sqlite', reachable: true, writable: true },
    ledger: { writable: true, failing_for_ms: null, waiting: 0, reason: null },
    refused_requests: [],
    limits_store: { kind: 'memory', reachable: true },
    disk: { free_bytes: 50 * 1024 ** 3, total_bytes: 100 * 1024 ** 3 },
    backup: BACKUP,
    mail: true,
    providers: ['Google'],
    recommended_model: null,
  };

  const REFUSED = {
    request_id: 'request-1',
    account_id: 'acct_1',
    key_id: 'key_1',
    model: 'test/model',
    crashes: 2,
    refused_until: '2026-11-21T16:21:48.000Z',
  };

  test('requests refused for crashing an engine are listed with account and key', () => {
    const checks = checksOf({ ...HEALTHY, refused_requests: [REFUSED] }, []);
    const check = checks.find(({ name }) => name === 'Engine crashes');
    assert.equal(check?.word, '1 refused');
    assert.match(check?.what ?? '', /request-1 of account acct_1, key key_1/);
  });

  test('healthy checks have no advice', () => {
    const checks = checksOf(HEALTHY, [model('ready')]);
    assert.deepEqual(
      checks.filter(({ state, advice }) => state !== 'healthy' || advice !== null),
      [],
    );
  });

  test('every check that is not healthy has advice', () => {
    const unhealthy = checksOf(
      {
        ...HEALTHY,
        instances: 2,
        database: { kind: 'postgres', reachable: true, writable: false },
        ledger: { writable: false, failing_for_ms: 4000, waiting: 2, reason: 'the disk is full' },
        refused_requests: [REFUSED, { ...REFUSED, request_id: 'request-2' }],
        disk: { free_bytes: 1024, total_bytes: 100 * 1024 ** 3 },
        backup: { ...BACKUP, failed_at: BACKUP.last_at, reason: 'the disk is full' },
        mail: false,
        providers: [],
      },
      [model('down')],
    );
    const states = Object.fromEntries(unhealthy.map(({ name, state }) => [name, state]));
    assert.deepEqual(states, {
      Database: 'unhealthy',
      Ledger: 'unhealthy',
      Limits: 'unhealthy',
      Disk: 'unhealthy',
      Models: 'unhealthy',
      'Engine crashes': 'warning',
      Backups: 'unhealthy',
      Email: 'off',
      'Sign-in': 'off',
    });
    assert.ok(unhealthy.every(({ advice }) => advice?.includes('docs/')));
  });

  test('the pages and sections named in advice exist', async () => {
    const broken = checksOf(
      {
        ...HEALTHY,
        instances: 2,
        database: { kind: 'sqlite', reachable: false, writable: false },
        ledger: { writable: false, failing_for_ms: null, waiting: 1, reason: null },
        refused_requests: [REFUSED],
        disk: { free_bytes: 1024, total_bytes: null },
        backup: null,
        mail: false,
        providers: [],
      },
      [model('down')],
    );
    const store = checksOf({ ...HEALTHY, limits_store: { kind: 'valkey', reachable: false } }, undefined);
    const advice = [...broken, ...store].map((check) => check.advice).join(' ');
    const named = [...advice.matchAll(/(docs\/[\w-]+\.md)(?:, "([^"]+)")?/g)];
    assert.ok(named.length >= 8);
    for (const [, path = '', heading] of named) {
      const text = await readFile(join(ROOT, path), 'utf8');
      assert.ok(heading === undefined || text.includes(`# ${heading}\n`), `${path}: ${heading}`);
    }
  });

  test('an unavailable model is more severe if it is required', () => {
    const stateWith = (...models: Model[]) =>
      checksOf(HEALTHY, models).find(({ name }) => name === 'Models')?.state;
    assert.equal(stateWith(model('ready'), model('down')), 'warning');
    assert.equal(stateWith(model('ready'), model('down', true)), 'unhealthy');
    assert.equal(stateWith(model('ready', true), model('loading')), 'warning');
    assert.equal(stateWith(model('loading'), model('loading')), 'unhealthy');
    assert.equal(stateWith(model('idle'), model('idle', true)), 'healthy', 'the next request loads them');
    assert.equal(stateWith(model('idle'), model('down')), 'warning');
  });

  function model(state: Model['state'], required = false): Model {
    return {
      id: 'acme/small',
      required,
      state,
      fraction: null,
      received_bytes: null,
      total_bytes: null,
      reason: null,
      origin: 'file',
      embedded: true,
      invalid: false,
      source: null,
      is_default: false,
      aliases: [],
      context_tokens: null,
      size_bytes: null,
      downloaded: null,
      license: null,
      memory_bytes: null,
      keep: false,
      deletes_file: null,
      retry_in_ms: null,
      waiting: 0,
      in_flight: 0,
      replicas: 1,
      replicas_ready: state === 'ready' ? 1 : 0,
      pricing: { prompt: '1', completion: '1', input_cache_read: null },
      context_length: null,
      max_completion_tokens: null,
      quantization: null,
      modality: null,
      instruct_type: null,
      recommended_sampling: {},
      tools: null,
      reasoning: null,
    };
  }
});
