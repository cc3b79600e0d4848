import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Charged, Ending, Entry } from '../../torture/books.ts';
import { compare } from '../../torture/compare.ts';
import { differencesOf, recount } from '../../torture/recount.ts';
import type { Row } from '../../torture/ledger.ts';
import { torture } from '../../torture/run.ts';
import { hasPostgres, hasValkey } from '../server-process.ts';

const FAULTS = 12;

for (const [database, copies, seed] of [
  ['sqlite', 1, 1],
  ['postgres', 2, 2],
] as const) {
  const skip =
    database === 'postgres' && !(hasPostgres() && hasValkey()) && 'There is no PostgreSQL, or no Valkey.';

  test(`callers' books and the ledger agree after ${FAULTS} faults, on ${database}`, { skip }, async () => {
    const never = new AbortController().signal;
    const { struck, books, rows, differences } = await torture({
      database,
      copies,
      seed,
      enough: never,
      stop: never,
      faults: FAULTS,
      callers: 8,
    });
    assert.deepEqual(differences, []);
    assert.equal(struck, FAULTS);
    assert.ok(books.count('whole') > 0);
    assert.ok(rows >= books.count('whole'));
  });
}

const ROW: Row = {
  id: '0194f000-0000-7000-8000-000000000001',
  client_request_id: 'torture-1',
  account_id: 'acct_1',
  key_id: 'key_1',
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
  usage_source: 'engine',
  billed: 1,
  price_prompt: 150_000,
  price_completion: 600_000,
  finish_reason: 'stop',
  error_code: null,
  http_status: 200,
  delivered: 1,
  cost_pico: 4_500_000n,
  reserved_tokens: 300,
  reserved_pico: 200_000_000n,
};

const WHOLE: Ending = { how: 'whole', usage: { prompt: 10, completion: 5 } };

const LIED: Charged = { source: 'clamped', prompt: 10, completion: 5 };

function entry(ending: Ending, received = 5, charged: Charged | null = null): Entry {
  return {
    wish: {
      clientRequestId: 'torture-1',
      caller: { account: 'acct_1', keyId: 'key_1', key: '' },
      copy: 0,
      model: 'torture/embedded',
      endpoint: 'chat',
      streamed: true,
      body: {},
      promptTokens: 10,
      completionTokens: 5,
      charged,
      directive: null,
      hangUp: null,
    },
    requestId: ROW.id,
    status: 200,
    received,
    ending,
    sentAt: 1000,
    endedAt: 1100,
  };
}

for (const [what, entries, rows, kinds] of [
  ['a whole answer with its row', [entry(WHOLE)], [ROW], []],
  ['a whole answer without a row', [entry(WHOLE)], [], ['lost']],
  [
    'a whole answer with another usage',
    [entry(WHOLE)],
    [{ ...ROW, completion_tokens: 4 }],
    ['wrong', 'lost'],
  ],
  ['two rows for one request', [entry(WHOLE)], [ROW, ROW], ['doubled']],
  ['a cost that is not tokens x price', [entry(WHOLE)], [{ ...ROW, cost_pico: 1n }], ['wrong']],
  ['a cost above what was set aside', [entry(WHOLE)], [{ ...ROW, reserved_pico: 4_499_999n }], ['wrong']],
  ['more tokens than were set aside', [entry(WHOLE)], [{ ...ROW, reserved_tokens: 14 }], ['wrong']],
  ['a lie that is clamped', [entry(WHOLE, 5, LIED)], [{ ...ROW, usage_source: 'clamped' }], []],
  ['a lie that is believed', [entry(WHOLE, 5, LIED)], [ROW], ['wrong']],
  [
    'a lie that is charged beyond the worst case',
    [entry({ how: 'hung-up' }, 5, LIED)],
    [{ ...ROW, error_code: 'hung_up', prompt_tokens: 11, cost_pico: 4_650_000n }],
    ['wrong'],
  ],
  ['a row of another account', [entry(WHOLE)], [{ ...ROW, account_id: 'acct_2' }], ['wrong']],
  ['a row that nobody asked for', [], [ROW], ['wrong']],
  ['an error that is billed', [entry({ how: 'framed', code: 'storage_unavailable' })], [ROW], ['wrong']],
  ['a hang-up billed for less than arrived', [entry({ how: 'hung-up' }, 6)], [ROW], ['wrong']],
  [
    'a hang-up billed for more than was said',
    [entry({ how: 'hung-up' }, 0)],
    [{ ...ROW, completion_tokens: 6, cost_pico: 5_100_000n }],
    ['wrong'],
  ],
  [
    'a crash whose row is interrupted',
    [entry({ how: 'lost', why: 'ECONNRESET' })],
    [{ ...ROW, state: 'interrupted', billed: 0, cost_pico: 0n }],
    [],
  ],
  [
    'a row that is open',
    [entry({ how: 'lost', why: 'ECONNRESET' })],
    [{ ...ROW, state: 'open', billed: 0, cost_pico: 0n }],
    ['open'],
  ],
] satisfies [what: string, entries: Entry[], rows: Row[], kinds: string[]][]) {
  test(`torture compares ${what}: ${kinds.join(' and ') || 'nothing to find'}`, () => {
    assert.deepEqual(
      compare(entries, rows).map(({ kind }) => kind),
      kinds,
    );
  });
}

test('torture finds a day that counts a row twice', () => {
  assert.deepEqual(differencesOf(recount([ROW]), recount([ROW])), []);
  assert.notDeepEqual(differencesOf(recount([ROW, ROW]), recount([ROW])), []);
});
