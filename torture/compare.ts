import type { Charged, Entry, Wish } from './books.ts';
import type { Row } from './ledger.ts';

/** Pico-dollars a token, of the configuration: counted here by hand, and not by what the service counts with. */
const PRICE_PICO = { prompt: 150_000n, completion: 600_000n };

/** Codes that the faults of a run explain. */
const EXPLAINED: ReadonlySet<string> = new Set([
  'request_crashed_engine',
  'internal_error',
  'engine_unavailable',
  'queue_full',
  'storage_unavailable',
  'shutting_down',
  'requests_per_minute',
  'tokens_per_minute',
  'concurrent_requests',
  'concurrent_body_bytes',
  'insufficient_quota',
]);

export interface Difference {
  /**
   * `lost`: the caller had something that has no row, or had it otherwise. `doubled`: counted more than once, or sums
   * that are not those of the rows. `wrong`: somebody pays what they should not, or the row is of something else.
   * `open`: a row that nobody has ended. `unserved`: a caller had no proper response in
   * time although the service was healthy.
   */
  kind: 'lost' | 'doubled' | 'wrong' | 'open' | 'unserved';
  what: string;
  entry?: Entry;
  rows?: readonly Row[];
}

/** Compares the books of all callers with the ledger, request by request. */
export function compare(entries: readonly Entry[], rows: readonly Row[]): Difference[] {
  const byClientId = Map.groupBy(rows, (row) => row.client_request_id ?? '');
  const known = new Set(entries.map(({ wish }) => wish.clientRequestId));
  const strange = rows.filter((row) => !known.has(row.client_request_id ?? ''));
  return [
    ...strange.map((row): Difference => ({
      kind: 'wrong',
      what: 'a row that nobody asked for',
      rows: [row],
    })),
    ...entries.flatMap((entry) => {
      const own = byClientId.get(entry.wish.clientRequestId) ?? [];
      const found = Map.groupBy(compareEntry(entry, own), ({ kind }) => kind);
      return [...found].map(([kind, differences]): Difference => {
        return { kind, what: differences.map(({ what }) => what).join('; '), entry, rows: own };
      });
    }),
  ];
}

function* compareEntry(entry: Entry, rows: readonly Row[]): Generator<Difference> {
  const [row] = rows;
  if (rows.length > 1) yield { kind: 'doubled', what: `${rows.length} rows for one request` };
  if (row === undefined) {
    const reason = whyThereMustBe(entry);
    if (reason !== null) yield { kind: 'lost', what: `no row: ${reason}` };
    return;
  }
  yield* compareRow(row, entry);
  yield* compareEnding(row, entry);
}

/** Null where there may be none. */
function whyThereMustBe({ ending, received, status, wish }: Entry): string | null {
  if (ending.how === 'whole') return 'the caller has the whole answer';
  if (received > 0) return `the caller has ${received} tokens`;
  if (status === 200 && wish.streamed) return 'the stream had begun';
  // No replica is asked before the row is there.
  if (ending.how === 'refused' && ending.code === 'engine_unavailable') return 'an engine was asked';
  return null;
}

/** What holds for every row, however its request ended. */
function* compareRow(row: Row, { wish, requestId }: Entry): Generator<Difference> {
  const wrong = (what: string): Difference => ({ kind: 'wrong', what });
  if (row.state === 'open') yield { kind: 'open', what: 'the row is open' };
  if (requestId !== null && row.id !== requestId) yield wrong(`its x-request-id was ${requestId}`);
  for (const [name, is, shouldBe] of [
    ['account', row.account_id, wish.caller.account],
    ['key', row.key_id, wish.caller.keyId],
    ['model', row.model, wish.model],
    ['endpoint', row.endpoint, wish.endpoint],
    ['streamed', row.streamed, Number(wish.streamed)],
    ['price of the prompt', BigInt(row.price_prompt), PRICE_PICO.prompt],
    ['price of the completion', BigInt(row.price_completion), PRICE_PICO.completion],
  ] as const) {
    if (is !== shouldBe) yield wrong(`${name} is ${is}, not ${shouldBe}`);
  }
  const worth =
    BigInt(row.prompt_tokens) * PRICE_PICO.prompt + BigInt(row.completion_tokens) * PRICE_PICO.completion;
  const cost = row.billed ? worth : 0n;
  if (row.cost_pico !== cost) yield wrong(`it costs ${row.cost_pico}, not ${cost}`);
  if (row.billed && row.state !== 'settled') yield wrong(`a row that is ${row.state} is billed`);
  if (row.billed && row.error_code !== null && row.error_code !== 'hung_up') {
    yield wrong(`the fault ${row.error_code} is billed`);
  }
  if (!row.billed && row.state === 'settled' && (row.error_code === null || row.error_code === 'hung_up')) {
    yield wrong('what was generated is not billed');
  }
  if (row.cost_pico > row.reserved_pico || (row.billed && tokensOf(row) > row.reserved_tokens)) {
    yield wrong(
      `${tokensOf(row)} tokens cost ${row.cost_pico}, and ${row.reserved_tokens} and ${row.reserved_pico} were set aside`,
    );
  }
  if (row.completion_tokens > wish.completionTokens) {
    yield wrong(
      `${row.completion_tokens} completion tokens, and the engine said ${wish.completionTokens} at most`,
    );
  }
  if (wish.charged) yield* compareCharged(row, wish, wish.charged);
  else if (row.prompt_tokens !== wish.promptTokens && !mayDiffer(row, wish)) {
    yield wrong(`${row.prompt_tokens} prompt tokens, and the engine counted ${wish.promptTokens}`);
  }
}

/** What a whole response of the lying replica is charged, and any part of one at most. */
function* compareCharged(row: Row, wish: Wish, charged: Charged): Generator<Difference> {
  const wrong = (what: string): Difference => ({ kind: 'wrong', what });
  if (row.prompt_tokens > wish.promptTokens)
    yield wrong(`${row.prompt_tokens} prompt tokens, and there are ${wish.promptTokens} at most`);
  if (row.state !== 'settled' || row.error_code !== null) return;
  const is = `${row.prompt_tokens} + ${row.completion_tokens} tokens (${row.usage_source})`;
  const shouldBe = `${charged.prompt} + ${charged.completion} tokens (${charged.source})`;
  if (is !== shouldBe) yield wrong(`${is} are charged, not ${shouldBe}`);
}

function tokensOf(row: Row): number {
  return row.prompt_tokens + row.completion_tokens;
}

/** Before the engine has said a number there is none, and for an engine that never says one it is estimated. */
function mayDiffer(row: Row, { directive }: Wish): boolean {
  return (row.prompt_tokens === 0 && row.completion_tokens === 0) || directive === 'noUsage';
}

/** What the ending that the caller saw demands of its row. */
function* compareEnding(row: Row, { ending, received, status }: Entry): Generator<Difference> {
  const wrong = (what: string): Difference => ({ kind: 'wrong', what });
  switch (ending.how) {
    case 'whole': {
      const { prompt, completion } = ending.usage ?? { prompt: NaN, completion: NaN };
      if (row.prompt_tokens !== prompt || row.completion_tokens !== completion) {
        yield { kind: 'lost', what: `the caller was told ${prompt} + ${completion} tokens` };
      }
      if (row.completion_tokens < received) yield { kind: 'lost', what: `the caller has ${received} tokens` };
      if (row.state !== 'settled' || !row.billed || row.error_code !== null || row.finish_reason === null) {
        yield { kind: 'lost', what: 'the caller has the whole answer, and the row is not that of one' };
      }
      return;
    }
    case 'refused':
    case 'framed':
      if (row.billed) yield wrong(`it ended with ${ending.code} for the caller, and is billed`);
      if (status === 400 || status === 401 || status === 429)
        yield wrong(`it was refused with ${ending.code}, and has a row`);
      if (row.state === 'settled' && row.error_code !== ending.code) {
        yield wrong(`it ended with ${ending.code} for the caller, and with ${row.error_code} in the ledger`);
      }
      if (!EXPLAINED.has(ending.code)) yield wrong(`nothing in a run ends with ${ending.code}`);
      return;
    case 'unreached':
      yield wrong('the request never left its caller');
      return;
    case 'lost':
    case 'hung-up':
      // What was generated after the last checkpoint of a copy that died is known to nobody, and paid by nobody.
      if (row.billed && row.completion_tokens < received) {
        yield wrong(`${row.completion_tokens} tokens are billed, and the caller has ${received}`);
      }
  }
}
