import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ExpectedUsage, ResponseOutcome, RequestRecord } from '../../torture/records.ts';
import { compare } from '../../torture/compare.ts';
import { differencesOf, recount } from '../../torture/recount.ts';
import type { LedgerRow } from '../../torture/ledger.ts';
import { torture } from '../../torture/run.ts';
import { hasPostgres, hasValkey } from '../support/server-process.ts';

const FAULTS = 12;

for (const [database, instances, seed] of [
  ['sqlite', 1, 1],
  ['postgres', 2, 2],
] as const) {
  const skip =
    database === 'postgres' && !(hasPostgres() && hasValkey()) && 'PostgreSQL or Valkey is not available.';

  test(
    `the ledger matches the callers' records after ${FAULTS} faults, on ${database}`,
    { skip },
    async () => {
      const never = new AbortController().signal;
      const { injected, callerLog, rows, differences } = await torture({
        database,
        instances,
        seed,
        finish: never,
        stop: never,
        faults: FAULTS,
        callers: 8,
        waitsForAlerts: false,
      });
      assert.deepEqual(differences, []);
      assert.equal(injected, FAULTS);
      assert.ok(callerLog.count('complete') > 0);
      assert.ok(rows >= callerLog.count('complete'));
    },
  );
}

const ROW: LedgerRow = {
  id: '0194f000-0000-7000-8000-000000000001',
  client_request_id: 'torture-1',
  account_id: 'acct_1',
  key_id: 'key_1',
  client: 'Node.js',
  endpoint: 'chat',
  model: 'torture/embedded',
  streamed: 1,
  state: 'settled',
  epoch: 1,
  attempts: 1,
  replica: 'a',
  started_at: 1000,
  first_token_at: 1010,
  ended_at: 1100,
  checkpoint_at: null,
  prompt_tokens: 10,
  cached_tokens: 0,
  completion_tokens: 5,
  reasoning_tokens: 0,
  usage_source: 'engine',
  billed: 1,
  price_prompt: 150_000,
  price_completion: 600_000,
  price_input_cache_read: 50_000,
  finish_reason: 'stop',
  error_code: null,
  http_status: 200,
  delivered: 1,
  cost_pico: 4_500_000n,
  reserved_tokens: 300,
  reserved_pico: 200_000_000n,
};

const COMPLETE: ResponseOutcome = { kind: 'complete', usage: { prompt: 10, completion: 5 } };

const CLAMPED: ExpectedUsage = { source: 'clamped', prompt: 10, completion: 5 };

function record(
  outcome: ResponseOutcome,
  received = 5,
  expectedUsage: ExpectedUsage | null = null,
): RequestRecord {
  return {
    request: {
      clientRequestId: 'torture-1',
      caller: { account: 'acct_1', keyId: 'key_1', key: '', plan: 'roomy' },
      instance: 0,
      model: 'torture/embedded',
      endpoint: 'chat',
      streamed: true,
      body: {},
      promptTokens: 10,
      completionTokens: 5,
      expectedUsage,
      directive: null,
      disconnect: null,
    },
    requestId: ROW.id,
    status: 200,
    received,
    outcome,
    sentAt: 1000,
    endedAt: 1100,
  };
}

for (const [what, records, rows, kinds] of [
  ['a complete response with its row', [record(COMPLETE)], [ROW], []],
  ['a complete response without a row', [record(COMPLETE)], [], ['lost']],
  [
    'a complete response with a different usage',
    [record(COMPLETE)],
    [{ ...ROW, completion_tokens: 4 }],
    ['wrong', 'lost'],
  ],
  ['two rows for one request', [record(COMPLETE)], [ROW, ROW], ['doubled']],
  ['a cost that is not tokens x price', [record(COMPLETE)], [{ ...ROW, cost_pico: 1n }], ['wrong']],
  ['cached tokens at the price of others', [record(COMPLETE)], [{ ...ROW, cached_tokens: 4 }], ['wrong']],
  [
    'cached tokens at their own price',
    [record(COMPLETE)],
    [{ ...ROW, cached_tokens: 4, cost_pico: 4_100_000n }],
    [],
  ],
  [
    'more cached tokens than prompt tokens',
    [record(COMPLETE)],
    [{ ...ROW, cached_tokens: 11, cost_pico: 3_400_000n }],
    ['wrong'],
  ],
  ['a cost above the reservation', [record(COMPLETE)], [{ ...ROW, reserved_pico: 4_499_999n }], ['wrong']],
  ['more tokens than were reserved', [record(COMPLETE)], [{ ...ROW, reserved_tokens: 14 }], ['wrong']],
  [
    'a false usage that was clamped',
    [record(COMPLETE, 5, CLAMPED)],
    [{ ...ROW, usage_source: 'clamped' }],
    [],
  ],
  ['a false usage that was accepted', [record(COMPLETE, 5, CLAMPED)], [ROW], ['wrong']],
  [
    'an aborted request whose false usage is billed above the worst case',
    [record({ kind: 'aborted' }, 5, CLAMPED)],
    [{ ...ROW, error_code: 'client_disconnected', prompt_tokens: 11, cost_pico: 4_650_000n }],
    ['wrong'],
  ],
  ['a row of another account', [record(COMPLETE)], [{ ...ROW, account_id: 'acct_2' }], ['wrong']],
  ['a row without a request', [], [ROW], ['wrong']],
  ['a billed error', [record({ kind: 'stream-error', code: 'storage_unavailable' })], [ROW], ['wrong']],
  [
    'an aborted request billed for less than was received',
    [record({ kind: 'aborted' }, 6)],
    [ROW],
    ['wrong'],
  ],
  [
    'an aborted request billed for more than was generated',
    [record({ kind: 'aborted' }, 0)],
    [{ ...ROW, completion_tokens: 6, cost_pico: 5_100_000n }],
    ['wrong'],
  ],
  [
    'a lost connection with an interrupted row',
    [record({ kind: 'connection-lost', reason: 'ECONNRESET' })],
    [{ ...ROW, state: 'interrupted', billed: 0, cost_pico: 0n }],
    [],
  ],
  [
    'an open row',
    [record({ kind: 'connection-lost', reason: 'ECONNRESET' })],
    [{ ...ROW, state: 'open', billed: 0, cost_pico: 0n }],
    ['open'],
  ],
] satisfies [what: string, records: RequestRecord[], rows: LedgerRow[], kinds: string[]][]) {
  test(`the comparison of ${what} finds ${kinds.join(' and ') || 'no difference'}`, () => {
    assert.deepEqual(
      compare(records, rows).map(({ kind }) => kind),
      kinds,
    );
  });
}

test('the comparison of roll-ups finds a row that is counted twice', () => {
  assert.deepEqual(differencesOf(recount([ROW]), recount([ROW])), []);
  assert.notDeepEqual(differencesOf(recount([ROW, ROW]), recount([ROW])), []);
});
