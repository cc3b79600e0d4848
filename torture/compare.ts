import type { ExpectedUsage, RequestRecord, TortureRequest } from './records.ts';
import type { LedgerRow } from './ledger.ts';

/** Pico-dollars per token, for the prices in the configuration. Independent of the service's conversion. */
const PRICE_PICO = { prompt: 150_000n, completion: 600_000n, inputCacheRead: 50_000n };

/** Error codes that the faults can cause. */
const EXPECTED_CODES: ReadonlySet<string> = new Set([
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
   * `lost`: a response without a row, or a complete response whose row differs from it. `doubled`: counted more than
   * once, or roll-ups that differ from the rows. `wrong`: a wrong charge, or a row that does not match the request.
   * `open`: a row that was never settled. `unserved`: no proper response in time although the service was healthy.
   */
  kind: 'lost' | 'doubled' | 'wrong' | 'open' | 'unserved';
  what: string;
  record?: RequestRecord;
  rows?: readonly LedgerRow[];
}

/** Compares the records of all callers with the ledger, request by request. */
export function compare(records: readonly RequestRecord[], rows: readonly LedgerRow[]): Difference[] {
  const byClientId = Map.groupBy(rows, (row) => row.client_request_id ?? '');
  const known = new Set(records.map(({ request }) => request.clientRequestId));
  const unknown = rows.filter((row) => !known.has(row.client_request_id ?? ''));
  return [
    ...unknown.map((row): Difference => ({ kind: 'wrong', what: 'a row without a request', rows: [row] })),
    ...records.flatMap((record) => {
      const own = byClientId.get(record.request.clientRequestId) ?? [];
      const found = Map.groupBy(compareRecord(record, own), ({ kind }) => kind);
      return [...found].map(([kind, differences]): Difference => {
        return { kind, what: differences.map(({ what }) => what).join('; '), record, rows: own };
      });
    }),
  ];
}

function* compareRecord(record: RequestRecord, rows: readonly LedgerRow[]): Generator<Difference> {
  const [row] = rows;
  if (rows.length > 1) yield { kind: 'doubled', what: `${rows.length} rows for one request` };
  if (row === undefined) {
    const reason = whyRowExpected(record);
    if (reason !== null) yield { kind: 'lost', what: `no row: ${reason}` };
    return;
  }
  yield* compareRow(row, record);
  yield* compareOutcome(row, record);
}

/** Returns why the request must have a row; null: it need not have one. */
function whyRowExpected({ outcome, received, status, request }: RequestRecord): string | null {
  if (outcome.kind === 'complete') return 'the caller received a complete response';
  if (received > 0) return `the caller received ${received} tokens`;
  if (status === 200 && request.streamed) return 'the stream had started';
  // The row is opened before a replica is selected, except to count a prompt for a calendar limit.
  const isCounted = request.caller.plan === 'budget';
  if (outcome.kind === 'refused' && outcome.code === 'engine_unavailable' && !isCounted)
    return 'replicas were tried';
  return null;
}

/** Checks a row independently of the outcome of its request. */
function* compareRow(row: LedgerRow, { request, requestId }: RequestRecord): Generator<Difference> {
  const wrong = (what: string): Difference => ({ kind: 'wrong', what });
  if (row.state === 'open') yield { kind: 'open', what: 'the row is open' };
  if (requestId !== null && row.id !== requestId) yield wrong(`the x-request-id was ${requestId}`);
  for (const [name, actual, expected] of [
    ['account', row.account_id, request.caller.account],
    ['key', row.key_id, request.caller.keyId],
    ['model', row.model, request.model],
    ['endpoint', row.endpoint, request.endpoint],
    ['streamed', row.streamed, Number(request.streamed)],
    ['price of the prompt', BigInt(row.price_prompt), PRICE_PICO.prompt],
    ['price of the completion', BigInt(row.price_completion), PRICE_PICO.completion],
    ['price of cached tokens', BigInt(row.price_input_cache_read ?? -1), PRICE_PICO.inputCacheRead],
  ] as const) {
    if (actual !== expected) yield wrong(`${name} is ${actual}, not ${expected}`);
  }
  const fullCost =
    BigInt(row.prompt_tokens - row.cached_tokens) * PRICE_PICO.prompt +
    BigInt(row.cached_tokens) * PRICE_PICO.inputCacheRead +
    BigInt(row.completion_tokens) * PRICE_PICO.completion;
  const cost = row.billed ? fullCost : 0n;
  if (row.cost_pico !== cost) yield wrong(`the cost is ${row.cost_pico}, not ${cost}`);
  if (row.billed && row.state !== 'settled') yield wrong(`the state is ${row.state} but the row is billed`);
  if (row.billed && row.error_code !== null && row.error_code !== 'client_disconnected') {
    yield wrong(`the error ${row.error_code} is billed`);
  }
  if (
    !row.billed &&
    row.state === 'settled' &&
    (row.error_code === null || row.error_code === 'client_disconnected')
  ) {
    yield wrong('a completion is not billed');
  }
  if (row.cost_pico > row.reserved_pico || (row.billed && tokensOf(row) > row.reserved_tokens)) {
    yield wrong(
      `${tokensOf(row)} tokens cost ${row.cost_pico}, but ${row.reserved_tokens} tokens and ${row.reserved_pico} were reserved`,
    );
  }
  if (row.cached_tokens > row.prompt_tokens) {
    yield wrong(`${row.cached_tokens} of ${row.prompt_tokens} prompt tokens are cached`);
  }
  if (row.completion_tokens > request.completionTokens) {
    yield wrong(
      `${row.completion_tokens} completion tokens, but the engine reported at most ${request.completionTokens}`,
    );
  }
  if (request.expectedUsage) yield* compareExpectedUsage(row, request, request.expectedUsage);
  else if (row.prompt_tokens !== request.promptTokens && !mayDiffer(row, request)) {
    yield wrong(`${row.prompt_tokens} prompt tokens, but the engine counted ${request.promptTokens}`);
  }
}

/**
 * Checks the counts of a request to the replica with false usage. If the request did not complete, only checks that the
 * prompt is within its maximum.
 */
function* compareExpectedUsage(
  row: LedgerRow,
  request: TortureRequest,
  expectedUsage: ExpectedUsage,
): Generator<Difference> {
  const wrong = (what: string): Difference => ({ kind: 'wrong', what });
  if (row.prompt_tokens > request.promptTokens)
    yield wrong(`${row.prompt_tokens} prompt tokens, but there are at most ${request.promptTokens}`);
  if (row.state !== 'settled' || row.error_code !== null) return;
  const actual = `${row.prompt_tokens} + ${row.completion_tokens} tokens (${row.usage_source})`;
  const expected = `${expectedUsage.prompt} + ${expectedUsage.completion} tokens (${expectedUsage.source})`;
  if (actual !== expected) yield wrong(`${actual} are charged, not ${expected}`);
}

function tokensOf(row: LedgerRow): number {
  return row.prompt_tokens + row.completion_tokens;
}

/**
 * Returns whether the row may have a different number of prompt tokens than the engine counted, because the engine has
 * reported no tokens yet or never reports them.
 */
function mayDiffer(row: LedgerRow, { directive, promptTokens }: TortureRequest): boolean {
  // Before the first token, a row has only the part of the prompt that was computed.
  const isPart = row.completion_tokens === 0 && row.prompt_tokens < promptTokens;
  return isPart || directive === 'noUsage';
}

/** Checks a row against the outcome that the caller saw. */
function* compareOutcome(
  row: LedgerRow,
  { outcome, received, status }: RequestRecord,
): Generator<Difference> {
  const wrong = (what: string): Difference => ({ kind: 'wrong', what });
  switch (outcome.kind) {
    case 'complete': {
      const { prompt, completion } = outcome.usage ?? { prompt: NaN, completion: NaN };
      if (row.prompt_tokens !== prompt || row.completion_tokens !== completion) {
        yield { kind: 'lost', what: `the response reported ${prompt} + ${completion} tokens` };
      }
      if (row.completion_tokens < received) {
        yield { kind: 'lost', what: `the caller received ${received} tokens` };
      }
      if (row.state !== 'settled' || !row.billed || row.error_code !== null || row.finish_reason === null) {
        yield { kind: 'lost', what: 'the response was complete, but the row is not' };
      }
      return;
    }
    case 'refused':
    case 'stream-error':
      if (row.billed) yield wrong(`the response was the error ${outcome.code}, but it is billed`);
      if (status === 400 || status === 401 || status === 429)
        yield wrong(`the request was refused with ${outcome.code}, but has a row`);
      if (row.state === 'settled' && row.error_code !== outcome.code) {
        yield wrong(`the error was ${outcome.code} for the caller, but is ${row.error_code} in the ledger`);
      }
      if (!EXPECTED_CODES.has(outcome.code)) yield wrong(`no fault can cause ${outcome.code}`);
      return;
    case 'not-sent':
      yield wrong('the request was not sent');
      return;
    case 'connection-lost':
    case 'aborted':
      // Not checked for unbilled rows: a crash loses the tokens after the last checkpoint.
      if (row.billed && row.completion_tokens < received) {
        yield wrong(`${row.completion_tokens} tokens are billed, but the caller received ${received}`);
      }
  }
}
