import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { limitLeft, limitsSet, limitWords } from '../../console/src/format/limits.ts';
import { changesOf } from '../../console/src/pages/operator/audit-detail.ts';
import { ACTION_WORDS, actionWords, partsOf } from '../../console/src/pages/operator/audit-words.ts';
import { checksOf } from '../../console/src/pages/operator/health-checks.ts';
import { recent, smooth } from '../../console/src/pages/operator/load-figures.ts';
import type { AuditAction } from '../../src/accounts/audit.ts';
import { ROOT } from '../docs/markdown.ts';

type Second = Parameters<typeof recent>[0][number];
type Health = Parameters<typeof checksOf>[0];
type Model = NonNullable<Parameters<typeof checksOf>[1]>[number];

describe('the audit log in words', () => {
  test('every action that is written down has words, and no other', () => {
    const words: Readonly<Record<AuditAction, string>> = ACTION_WORDS;
    const actions: readonly AuditAction[] = Object.keys(ACTION_WORDS) as (keyof typeof ACTION_WORDS)[]; // Its own.
    assert.ok(actions.every((action) => words[action].length > 0));
  });

  test('an action of a newer version is told by its name', () => {
    assert.equal(actionWords('engine.restart'), 'engine.restart');
    assert.equal(actionWords('key.revoke'), 'Revoked the key');
  });

  test('who and what are taken apart at the first colon', () => {
    assert.deepEqual(partsOf('cli:ops:night'), { kind: 'cli', id: 'ops:night' });
    assert.deepEqual(partsOf('service'), { kind: 'service', id: '' });
  });

  test('a change is told with what was before, whether the entry has one value or several', () => {
    const renamed = entry('account.rename', { from: 'Acme', to: 'Acme Ltd' });
    assert.deepEqual(changesOf(renamed), [{ field: 'Name', from: 'Acme', to: 'Acme Ltd' }]);
    const changed = entry('key.update', {
      allowed_models: { from: null, to: ['a/b', 'a/c'] },
      limits: { from: { requestsPerMinute: 60 }, to: null },
    });
    assert.deepEqual(changesOf(changed), [
      { field: 'Models', from: 'all', to: 'a/b, a/c' },
      { field: 'Limits', from: '60 requests per minute', to: 'none' },
    ]);
  });

  test('what was made is told without a before', () => {
    const made = entry('account.create', { name: 'Acme', plan: null });
    assert.deepEqual(changesOf(made), [
      { field: 'Name', from: null, to: 'Acme' },
      { field: 'Plan', from: null, to: 'the default plan' },
    ]);
  });

  test('the limits of a plan are told in words, those of single models by their names', () => {
    const to = { usdPerMonth: '12.5', burst: { requests: 3 }, models: { 'a/b': { tokensPerDay: 9 } } };
    const [change] = changesOf(entry('plan.change', { from: {}, to }));
    assert.deepEqual(change, {
      field: 'Limits',
      from: 'no limits',
      to: '$12.50 per month (UTC), further ones for a/b',
    });
  });

  function entry(action: string, detail: Record<string, unknown>): Parameters<typeof changesOf>[0] {
    return { id: '', at: '', actor: 'service', ip: null, action, subject: '', account_id: null, detail };
  }
});

describe('limits in words', () => {
  test('those that are set, in the order in which people read them', () => {
    const set = limitsSet({ usd_per_month: '2500', requests_per_minute: 600, tokens_per_day: undefined });
    assert.deepEqual(
      set.map(({ limit, bound }) => limitWords(limit, bound)),
      ['600 requests per minute', '$2,500.00 per month (UTC)'],
    );
  });

  test('what is left of an amount of money is exact, however small the parts', () => {
    const left = limitLeft({ limit: 'usd_per_month', bound: '0.3', used: '0.1' });
    assert.equal(left, '$0.20');
    assert.equal(
      limitLeft({ limit: 'usd_per_month', bound: '1', used: '0.999999999999' }),
      '$0.000000000001',
    );
  });

  test('a debt leaves nothing, and not less', () => {
    assert.equal(limitLeft({ limit: 'tokens_per_minute', bound: 1000, used: 1700 }), '0');
    assert.equal(limitLeft({ limit: 'tokens_per_minute', bound: 20_000, used: 1700 }), '18,300');
  });
});

describe('the load of the last seconds', () => {
  test('rates are means over the seconds asked for, the newest ones', () => {
    const seconds = [second({ requests: 100 }), second({ requests: 4, prompt_tokens: 10 }), second({})];
    const { requestsPerSecond, tokensPerSecond } = recent(seconds, 2);
    assert.equal(requestsPerSecond, 2);
    assert.equal(tokensPerSecond, 5);
  });

  test('no share of errors and no median are told where nothing ended', () => {
    const { errorShare, ttftMs } = recent([second({}), second({})], 2);
    assert.equal(errorShare, null);
    assert.equal(ttftMs, null);
  });

  test('the share of errors is that of all requests, not the mean of the seconds', () => {
    const seconds = [second({ requests: 9 }), second({ requests: 1, errors: 1 })];
    assert.equal(recent(seconds, 2).errorShare, 0.1);
  });

  test('a peak of one second is spread over those that follow it', () => {
    assert.deepEqual(smooth([0, 6, 0, 0, 0], 3), [0, 3, 2, 2, 0]);
  });

  function second(told: Partial<Second>): Second {
    const nothing = { requests: 0, errors: 0, prompt_tokens: 0, completion_tokens: 0, ttft_ms: null };
    return { at: '2026-11-21T16:11:48.000Z', ...nothing, ...told };
  }
});

describe('what is not well', () => {
  const WELL: Health = {
    version: '1.0.0',
    node_version: '26.10.0',
    started_at: '2026-11-21T16:11:48.000Z',
    copy: 'one',
    copies: 1,
    database: { kind: 'sqlite', reachable: true, writable: true },
    ledger: { writable: true, failing_for_ms: null, waiting: 0, reason: null },
    refused_requests: [],
    limits_store: { kind: 'memory', reachable: true },
    disk: { free_bytes: 50 * 1024 ** 3, total_bytes: 100 * 1024 ** 3 },
    mail: true,
    providers: ['Google'],
  };

  const REFUSED = {
    request_id: 'request-1',
    account_id: 'acct_1',
    key_id: 'key_1',
    model: 'test/model',
    crashes: 2,
    refused_until: '2026-11-21T16:21:48.000Z',
  };

  test('requests that are refused for crashing an engine are named with their account and key', () => {
    const checks = checksOf({ ...WELL, refused_requests: [REFUSED] }, []);
    const check = checks.find(({ name }) => name === 'Engine crashes');
    assert.equal(check?.word, '1 refused');
    assert.match(check?.what ?? '', /request-1 of account acct_1, key key_1/);
  });

  test('nothing, and then nothing is advised', () => {
    const checks = checksOf(WELL, [model('ready')]);
    assert.deepEqual(
      checks.filter(({ state, advice }) => state !== 'well' || advice !== null),
      [],
    );
  });

  test('each thing that is not well comes with what to do', () => {
    const unwell = checksOf(
      {
        ...WELL,
        copies: 2,
        database: { kind: 'postgres', reachable: true, writable: false },
        ledger: { writable: false, failing_for_ms: 4000, waiting: 2, reason: 'the disk is full' },
        refused_requests: [REFUSED, { ...REFUSED, request_id: 'request-2' }],
        disk: { free_bytes: 1024, total_bytes: 100 * 1024 ** 3 },
        mail: false,
        providers: [],
      },
      [model('down')],
    );
    const states = Object.fromEntries(unwell.map(({ name, state }) => [name, state]));
    assert.deepEqual(states, {
      Database: 'unwell',
      Ledger: 'unwell',
      Limits: 'unwell',
      Disk: 'unwell',
      Models: 'unwell',
      'Engine crashes': 'watch',
      'E-mail': 'off',
      'Sign-in': 'off',
    });
    assert.ok(unwell.every(({ advice }) => advice?.includes('docs/')));
  });

  test('what is said to be read is there', async () => {
    const broken = checksOf(
      {
        ...WELL,
        copies: 2,
        database: { kind: 'sqlite', reachable: false, writable: false },
        ledger: { writable: false, failing_for_ms: null, waiting: 1, reason: null },
        refused_requests: [REFUSED],
        disk: { free_bytes: 1024, total_bytes: null },
        mail: false,
        providers: [],
      },
      [model('down')],
    );
    const store = checksOf({ ...WELL, limits_store: { kind: 'valkey', reachable: false } }, undefined);
    const advice = [...broken, ...store].map((check) => check.advice).join(' ');
    const named = [...advice.matchAll(/(docs\/[\w-]+\.md)(?:, "([^"]+)")?/g)];
    assert.ok(named.length >= 8);
    for (const [, path = '', heading] of named) {
      const text = await readFile(join(ROOT, path), 'utf8');
      assert.ok(heading === undefined || text.includes(`# ${heading}\n`), `${path}: ${heading}`);
    }
  });

  test('a model that is away matters more when it is required', () => {
    const stateWith = (...models: Model[]) =>
      checksOf(WELL, models).find(({ name }) => name === 'Models')?.state;
    assert.equal(stateWith(model('ready'), model('down')), 'watch');
    assert.equal(stateWith(model('ready'), model('down', true)), 'unwell');
    assert.equal(stateWith(model('ready', true), model('loading')), 'watch');
    assert.equal(stateWith(model('loading'), model('loading')), 'unwell');
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
      retry_in_ms: null,
      waiting: 0,
      in_flight: 0,
      replicas: 1,
      replicas_ready: state === 'ready' ? 1 : 0,
      pricing: { prompt: '1', completion: '1' },
      context_length: null,
      max_completion_tokens: null,
      quantization: null,
      modality: null,
      instruct_type: null,
    };
  }
});
