import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { accountOfBudget, budgetsOf } from '../../src/alerts/account-conditions.ts';
import { HOST, InstanceConditions, type Observation, type ReplicaView } from '../../src/alerts/conditions.ts';
import { Traffic } from '../../src/alerts/traffic.ts';
import { ALERTS, conditionOf } from '../../src/core/alert-types.ts';
import { alertsSchema } from '../../src/config/alerts.ts';
import { FINE } from './fixture.ts';

const SECOND = 1000;
const MINUTE = 60_000;
const HOUR = 3_600_000;
const NOW = Date.UTC(2026, 10, 23, 12);
const SETTINGS = alertsSchema.parse({});
const NONE: ReadonlySet<string> = new Set();

function keysOf(
  seen: Partial<Observation>,
  instance = new InstanceConditions(SETTINGS),
  firing = NONE,
): string[] {
  return instance.find({ ...FINE, now: NOW, errors: [], ...seen }, firing).found.map(({ key }) => key);
}

function replica(state: ReplicaView['state'], more: Partial<ReplicaView> = {}): ReplicaView {
  return {
    model: 'a/b',
    name: 'a/b#0',
    address: 'http://gpu-1:8000',
    state,
    failing: false,
    lastCrash: null,
    ...more,
  };
}

const DOWN = { state: 'down', reason: 'connect ECONNREFUSED', retryInMs: null } as const;
const LOADING = { state: 'loading', fraction: 0 } as const;
const PAUSED = { state: 'paused', reason: '5 consecutive failures', retryInMs: 1000 } as const;

test('a replica that is down, or paused by its breaker, is reported after `replicaDownMs` and until it is ready', () => {
  const instance = new InstanceConditions(SETTINGS);
  const at = (second: number, view: ReplicaView, firing: readonly string[] = []) =>
    keysOf({ now: NOW + second * SECOND, replicas: [view] }, instance, new Set(firing));
  const key = 'replica_down:a/b:http://gpu-1:8000';
  assert.deepEqual(at(0, replica(DOWN)), []);
  assert.deepEqual(at(50, replica(PAUSED, { failing: true })), []);
  assert.deepEqual(at(60, replica(DOWN)), [key]);
  // It is still down while it is loaded again, but a first load is not a fault.
  assert.deepEqual(at(70, replica(LOADING), [key]), [key]);
  assert.deepEqual(at(70, replica(LOADING)), []);
  assert.deepEqual(at(80, replica({ state: 'ready' }), [key]), []);
  assert.deepEqual(at(150, replica(DOWN)), []);
  // A pause because of a 429 is not an outage.
  assert.deepEqual(at(151, replica(PAUSED)), []);
  assert.deepEqual(at(300, replica(PAUSED)), []);
  // An engine that crashes while it is loaded, again and again, counts as down.
  assert.deepEqual(at(400, replica(DOWN)), []);
  for (let second = 410; second < 460; second += 10) assert.deepEqual(at(second, replica(LOADING)), []);
  assert.deepEqual(at(460, replica(DOWN)), [key]);
  // The clock was set back.
  assert.deepEqual(at(0, replica(DOWN)), []);
  assert.deepEqual(at(60, replica(DOWN)), [key]);
});

test('instances share a server, but each has its own engine', () => {
  const down = { ...SETTINGS, replicaDownMs: 0 };
  const replicas = [replica(DOWN), replica(DOWN, { address: null })];
  assert.deepEqual(keysOf({ replicas }, new InstanceConditions(down)), [
    'replica_down:a/b:http://gpu-1:8000',
    `replica_down:a/b:${HOST}:a/b#0`,
  ]);
});

test('crashes within 10 minutes are one condition', () => {
  const crashed = (agoMs: number) =>
    keysOf({
      replicas: [replica({ state: 'ready' }, { lastCrash: { at: NOW - agoMs, reason: 'SIGSEGV' } })],
    });
  assert.deepEqual(crashed(0), [`engine_crashed:${HOST}:a/b#0`]);
  assert.deepEqual(crashed(10 * MINUTE + 1), []);
});

test('the disk, the ledger and backups', () => {
  assert.deepEqual(keysOf({ freeBytes: 2 ** 30 }), []);
  assert.deepEqual(keysOf({ freeBytes: 2 ** 30 - 1 }), [`disk_low:${HOST}`]);
  assert.deepEqual(keysOf({ freeBytes: null }), []);
  const ledger = (sinceMs: number) => ({ writable: false, sinceMs, waiting: 0, reason: 'full' }) as const;
  assert.deepEqual(keysOf({ ledger: ledger(29 * SECOND) }), []);
  assert.deepEqual(keysOf({ ledger: ledger(30 * SECOND) }), [`ledger_unwritable:${HOST}`]);
  const backup = { everyHours: 24, lastAt: NOW - 25 * HOUR, failedAt: null, reason: null };
  assert.deepEqual(keysOf({ backup }), []);
  assert.deepEqual(keysOf({ backup: { ...backup, lastAt: NOW - 25 * HOUR - 1 } }), [`backup_late:${HOST}`]);
  // The service was not running when it was due.
  assert.deepEqual(keysOf({ startedAt: NOW - HOUR, backup: { ...backup, lastAt: null } }), []);
  assert.deepEqual(keysOf({ startedAt: NOW - HOUR - 1, backup: { ...backup, lastAt: null } }), [
    `backup_late:${HOST}`,
  ]);
  assert.deepEqual(keysOf({ backup: { ...backup, lastAt: 0, failedAt: NOW, reason: 'x' } }), [
    `backup_failed:${HOST}`,
  ]);
});

test('an instance that was just started keeps what fires until it can judge it', () => {
  const key = 'replica_down:a/b:http://gpu-1:8000';
  const judge = (seen: Partial<Observation>, ...firing: string[]) => {
    const { found, kept } = new InstanceConditions(SETTINGS).find(
      { ...FINE, now: NOW, startedAt: NOW - SECOND, errors: [], ...seen },
      new Set(firing),
    );
    return [...found.map((each) => each.key), ...kept];
  };
  assert.deepEqual(judge({ replicas: [replica(DOWN)] }), []);
  assert.deepEqual(judge({ replicas: [replica(DOWN)] }, key), [key]);
  assert.deepEqual(judge({ replicas: [replica({ state: 'ready' })] }, key), []);
  assert.deepEqual(judge({}, 'error_rate:a/b'), ['error_rate:a/b']);
  assert.deepEqual(judge({ startedAt: NOW - 5 * MINUTE }, 'error_rate:a/b'), []);
  const unwritable = { writable: false, sinceMs: 0, waiting: 1, reason: 'the disk is full' } as const;
  assert.deepEqual(judge({ ledger: unwritable }), []);
  assert.deepEqual(judge({ ledger: unwritable }, `ledger_unwritable:${HOST}`), [`ledger_unwritable:${HOST}`]);
  // Before the first attempt after the start, and before the directory was read.
  const backup = { everyHours: 24, lastAt: null, failedAt: null, reason: null };
  for (const type of ['backup_failed', 'backup_late']) {
    assert.deepEqual(judge({ backup }, `${type}:${HOST}`), [`${type}:${HOST}`]);
    assert.deepEqual(judge({ backup: { ...backup, lastAt: NOW - HOUR } }, `${type}:${HOST}`), []);
  }
  assert.deepEqual(judge({ freeBytes: null }, `disk_low:${HOST}`), [`disk_low:${HOST}`]);
});

test('errors are counted per model and in total, and refused requests and disconnects are not errors', () => {
  const clock = { now: 0 };
  const traffic = new Traffic(5 * MINUTE, () => clock.now);
  const end = (model: string | null, status: number, code: string | null, count: number) => {
    for (let index = 0; index < count; index++) {
      traffic.record({ accountId: 'acct_1', model, status, code });
    }
  };
  end('a/b', 503, 'queue_full', 4);
  end('a/b', 200, null, 15);
  end('a/b', 429, 'requests_per_minute', 1000);
  end(null, 401, 'invalid_api_key', 1000);
  assert.deepEqual(keysOf({ errors: traffic.errors() }), []);
  end('a/b', 200, 'client_disconnected', 1);
  assert.deepEqual(keysOf({ errors: traffic.errors() }), ['error_rate:a/b']);
  // Failures before the model is known, or of a model with few requests.
  end(null, 503, 'overloaded', 1);
  assert.deepEqual(keysOf({ errors: traffic.errors() }), ['error_rate:service', 'error_rate:a/b']);
  end('c/d', 200, null, 20);
  assert.deepEqual(keysOf({ errors: traffic.errors() }), ['error_rate:a/b']);
  clock.now += 6 * MINUTE;
  assert.deepEqual(keysOf({ errors: traffic.errors() }), []);
  assert.deepEqual([...traffic.takeAccounts()], ['acct_1']);
  assert.deepEqual([...traffic.takeAccounts()], []);
});

test('a budget has at most one condition, which depends only on the share that is used', () => {
  const entry = fc.record({
    keyId: fc.constant(''),
    model: fc.constantFrom('a/b', 'c/d'),
    state: fc.constant('settled' as const),
    windows: fc.constantFrom(['day', 'month'] as const, ['month'] as const),
    requests: fc.constant(0),
    tokens: fc.nat(1000),
    pico: fc.bigInt({ min: 0n, max: 1_500_000_000_000n }),
  });
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 4 }), (usage) => {
      const account = { id: 'acct_1', name: 'Acme' };
      const limits = {
        tokensPerDay: 1000,
        usdPerMonth: '2',
        requestsPerMinute: 1,
        models: { 'a/b': { tokensPerMonth: 1000 } },
      };
      const keys = budgetsOf(account, usage, limits, NOW).map(({ key }) => key);
      const tokens = (window: 'day' | 'month', of = usage) =>
        of.reduce((sum, each) => sum + (each.windows.some((one) => one === window) ? each.tokens : 0), 0);
      const expected = (share: number, subject: string) =>
        share < 0.8 ? [] : [`budget_${share >= 1 ? 100 : 80}:acct_1:${subject}`];
      const usd = usage.reduce((sum, { pico }) => sum + pico, 0n);
      assert.deepEqual(keys, [
        ...expected(tokens('day') / 1000, 'tokensPerDay::2026-11-23:1000'),
        // Money is rounded up to nano-dollars.
        ...expected(Number((usd + 999n) / 1000n) / 2e9, 'usdPerMonth::2026-11:2'),
        ...expected(
          tokens(
            'month',
            usage.filter(({ model }) => model === 'a/b'),
          ) / 1000,
          'tokensPerMonth:a/b:2026-11:1000',
        ),
      ]);
      for (const key of keys) assert.equal(accountOfBudget(key), 'acct_1');
    }),
  );
  assert.equal(accountOfBudget('disk_low:acct_1:x'), null);
  // Requests that cost nothing are not refused.
  assert.deepEqual(budgetsOf({ id: 'acct_1', name: 'Acme' }, [], { usdPerMonth: '0' }, NOW), []);
});

test('texts are bounded and have no line breaks in titles, whatever the facts are', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 5000 }), (text) => {
      const condition = conditionOf('replica_down', text, { model: text, replica: text, reason: text });
      assert.ok(
        condition.title.length <= 300 && condition.text.length <= 2000 && condition.key.length <= 500,
      );
      assert.doesNotMatch(condition.title, /\p{Cc}/u);
    }),
  );
});

test('every type has a description that ends with a full stop', () => {
  for (const { description } of Object.values(ALERTS)) assert.match(description, /\.$/);
});
