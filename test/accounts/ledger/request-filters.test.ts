import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { picoOfUsd, usdText } from '../../../src/accounts/ledger/cost.ts';
import { requestJson, type RequestRow } from '../../../src/accounts/ledger/request-json.ts';
import { NOTE_NAMES, type RequestNote } from '../../../src/accounts/ledger/request-notes.ts';
import { exportRequests, readRequests, type RequestFilter } from '../../../src/accounts/ledger/requests.ts';
import type { OpenedRow, Settlement } from '../../../src/accounts/ledger/ledger.ts';
import { testDatabases, type TestDatabase } from '../../support/servers.ts';
import { counts, newRow, open, settlement } from './fixture.ts';

const NOTED = JSON.stringify({ sampling: {}, notes: [{ path: 'user', what: 'has no effect' }] });
/** What a caller can write into the column without a note. */
const FORGED = JSON.stringify({ sampling: {}, template_variables: { '"notes":[': null, notes: 1 } });

const rare = <Value>(value: Value, usual: Value) =>
  fc.oneof({ weight: 1, arbitrary: fc.constant(value) }, { weight: 2, arbitrary: fc.constant(usual) });
const small = fc.integer({ min: 0, max: 5 });

interface SeedRow {
  state: 'open' | 'settled' | 'interrupted';
  modelInput: string | null;
  client: string | null;
  ttft: number | null;
  duration: number;
  prompt: number;
  completion: number;
  price: number;
  ended: Partial<Settlement>;
}

/** Values are small, so that many rows are exactly at a minimum. */
const seedRow: fc.Arbitrary<SeedRow> = fc.record({
  state: fc.constantFrom('open', 'settled', 'settled', 'settled', 'interrupted'),
  modelInput: fc.constantFrom(null, NOTED, FORGED),
  client: fc.constantFrom(null, 'curl', 'OpenAI Python'),
  ttft: fc.option(small),
  duration: small,
  prompt: small,
  completion: small,
  price: small,
  ended: fc.record({
    attempts: fc.integer({ min: 1, max: 3 }),
    cacheMiss: rare<string | null>('tools', null),
    continuedAfter: rare<number | null>(2, null),
    finishReason: fc.constantFrom('stop', 'length', 'content_filter', null),
    usageSource: fc.constantFrom('engine', 'estimated', 'clamped', null),
  }),
});

const minimum = fc.option(fc.integer({ min: 1, max: 6 }), { freq: 2 });
const filters: fc.Arbitrary<RequestFilter> = fc.record({
  client: fc.option(fc.constantFrom('', 'curl'), { freq: 1 }),
  minDurationMs: minimum,
  minTtftMs: minimum,
  minTokens: minimum,
  minCostPico: fc.option(fc.bigInt({ min: 0n, max: 30n }), { freq: 2 }),
  note: fc.option(fc.constantFrom(...NOTE_NAMES), { freq: 1 }),
  outcome: fc.option(fc.constantFrom('completed', 'interrupted'), { freq: 1 }),
});

/** The condition of each note, apart from the SQL. */
const NOTED_BY: Record<RequestNote, (row: RequestRow) => boolean> = {
  changed_input: (row) => row.model_input === NOTED,
  cache_miss: (row) => row.cache_miss !== null,
  retried: (row) => row.attempts > 1,
  continued: (row) => row.continued_after !== null,
  truncated: (row) => row.finish_reason === 'length',
  filtered: (row) => row.finish_reason === 'content_filter',
  estimated: (row) => row.state !== 'open' && ['estimated', 'clamped'].includes(row.usage_source ?? ''),
};

function matches(row: RequestRow, filter: RequestFilter): boolean {
  const atLeast = (value: number | null, least: number | null | undefined) =>
    least == null || (row.state !== 'open' && value !== null && value >= least);
  const since = (at: number | null) => (at === null ? null : at - row.started_at);
  const { client, minDurationMs, minTtftMs, minTokens, minCostPico, note, outcome } = filter;
  return (
    (client == null || (row.client ?? '') === client) &&
    atLeast(since(row.ended_at), minDurationMs) &&
    atLeast(since(row.first_token_at), minTtftMs) &&
    atLeast(row.prompt_tokens + row.completion_tokens, minTokens) &&
    (minCostPico == null || (row.state !== 'open' && BigInt(row.cost_pico) >= minCostPico)) &&
    (note == null || NOTED_BY[note](row)) &&
    (outcome == null || row.state === (outcome === 'completed' ? 'settled' : outcome))
  );
}

async function seed(database: TestDatabase): Promise<void> {
  await using ledger = await open(database);
  const startedAt = Date.now();
  const interrupted: string[] = [];
  for (const row of fc.sample(seedRow, { numRuns: 150, seed: 1 })) {
    const { state, modelInput, client, ttft, duration, prompt, completion, price, ended } = row;
    const opened: Partial<OpenedRow> = {
      startedAt,
      modelInput,
      client,
      pricePrompt: price,
      priceCompletion: price,
    };
    const { id } = newRow();
    await ledger.open(newRow({ ...opened, id }), counts());
    if (state === 'open') continue;
    const usage = { ...counts(prompt, completion).usage };
    const times = {
      firstTokenAt: ttft === null ? null : startedAt + ttft,
      endedAt: startedAt + duration,
    };
    await ledger.settle(id, settlement({ ...ended, ...times, usage }));
    if (state === 'interrupted') interrupted.push(id);
  }
  await database.kysely
    .updateTable('ledger')
    .set({ state: 'interrupted', ended_at: null })
    .where('id', 'in', interrupted)
    .execute();
}

async function listed(database: TestDatabase, filter: RequestFilter): Promise<RequestRow[]> {
  const rows: RequestRow[] = [];
  let before: string | null = null;
  do {
    const page: Awaited<ReturnType<typeof readRequests>> = await readRequests(database, filter, {
      limit: 40,
      before,
    });
    rows.push(...page.requests);
    before = page.next;
  } while (before !== null);
  return rows;
}

const idsOf = (rows: readonly RequestRow[]) => rows.map(({ id }) => id);

for (const databases of testDatabases()) {
  describe(`filters of requests on ${databases.name}`, () => {
    test('the log and the export have exactly the requests of the client, above each minimum and with the note', async () => {
      await using database = await databases.open();
      await seed(database);
      const all = await listed(database, {});
      assert.equal(all.length, 150);
      for (const note of NOTE_NAMES) {
        const count = all.filter(NOTED_BY[note]).length;
        assert.ok(count > 0 && count < all.length, note);
      }
      for (const row of all) {
        assert.deepEqual(
          requestJson(row).notes,
          NOTE_NAMES.filter((note) => NOTED_BY[note](row)),
        );
      }
      await fc.assert(
        fc.asyncProperty(filters, async (filter) => {
          const expected = idsOf(all.filter((row) => matches(row, filter)));
          assert.deepEqual(idsOf(await listed(database, filter)), expected);
          const exported = await Array.fromAsync(exportRequests(database, filter));
          assert.deepEqual(idsOf(exported), expected.toReversed());
        }),
        { numRuns: 60 },
      );
    });
  });
}

test('an amount in USD is converted to pico-dollars exactly, and everything else is refused', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 18n - 1n }), (pico) => {
      assert.equal(picoOfUsd(usdText(pico)), pico);
    }),
  );
  for (const text of [
    '',
    '-1',
    '+1',
    '1e3',
    '.5',
    '1.',
    '1,5',
    '0.0000000000001',
    '1000000',
    ' 1',
    'NaN',
    '0x1',
  ])
    assert.equal(picoOfUsd(text), null, text);
});
