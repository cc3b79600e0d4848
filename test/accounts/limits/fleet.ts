import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { PlanLimits } from '../../../src/config/plan.ts';
import type {
  Actual,
  Decision,
  Demand,
  Denial,
  HistoryEntry,
  Limits,
  RateLimitHeaders,
  Reservation,
  UsageHistory,
} from '../../../src/accounts/limits/limits.ts';
import { openMemoryLimits } from '../../../src/accounts/limits/memory.ts';
import type { ValkeyTiming } from '../../../src/accounts/limits/valkey-connection.ts';
import { openValkeyLimits, type ValkeyLimitsOptions } from '../../../src/accounts/limits/valkey.ts';
import { SILENT } from '../../../src/log.ts';
import { Secret } from '../../../src/secret.ts';
import { valkeyUrl, withoutValkey } from '../../servers.ts';

/** One copy of the service in memory, or several on one Valkey. */
export interface Kind {
  name: string;
  skip: string | false;
  open(reservedShare?: number): Promise<Fleet>;
}

/** Copies that share limits, and the books of all. */
export class Fleet implements AsyncDisposable {
  readonly ledger: FakeLedger;
  readonly copies: readonly Limits[];

  constructor(ledger: FakeLedger, copies: readonly Limits[]) {
    this.ledger = ledger;
    this.copies = copies;
  }

  /** Asks a copy, whichever the number falls on, and opens the row of what it admits. */
  async admit(demand: Demand, copy = 0): Promise<Decision & { request?: Request }> {
    const limits = this.copies[copy % this.copies.length];
    assert.ok(limits);
    const decision = await limits.admit(demand);
    if (!decision.admitted) return decision;
    const row = this.ledger.open(demand);
    return { ...decision, request: new Request(limits, decision.reservation, row) };
  }

  /** As `admit`, for what must be admitted. */
  async run(demand: Demand, copy = 0): Promise<Request> {
    const { request, ...decision } = await this.admit(demand, copy);
    assert.ok(
      request,
      JSON.stringify(decision, (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value)),
    );
    return request;
  }

  /** As `admit`, for what must be refused. */
  async refused(demand: Demand, copy = 0): Promise<Denial & { headers: RateLimitHeaders }> {
    const decision = await this.admit(demand, copy);
    assert.ok(!decision.admitted, 'it was admitted');
    return { ...decision.denial, headers: decision.headers };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const copy of this.copies) await copy[Symbol.asyncDispose]();
  }
}

/** An admitted request: settled in the ledger first, as the service does. */
export class Request {
  readonly reservation: Reservation;
  readonly #limits: Limits;
  readonly #row: Row;

  constructor(limits: Limits, reservation: Reservation, row: Row) {
    this.#limits = limits;
    this.reservation = reservation;
    this.#row = row;
  }

  /** It used so much. */
  end(tokens: number, pico = 0n): Promise<void> {
    return this.#settle({ tokens, pico, request: true });
  }

  /** Our fault ended it. */
  fail(): Promise<void> {
    return this.#settle({ tokens: 0, pico: 0n, request: false });
  }

  /** Resolves when all copies see it: a connection answers in order. */
  async #settle(actual: Actual): Promise<void> {
    Object.assign(this.#row, {
      open: false,
      billed: actual.request,
      tokens: actual.tokens,
      pico: actual.pico,
    });
    this.#limits.settle(this.reservation, actual);
    await this.#limits.peek(this.#row);
  }
}

interface Row extends Demand {
  startedAt: number;
  open: boolean;
  billed: boolean;
  tokens: number;
  pico: bigint;
}

/** The ledger as limits see it. */
export class FakeLedger implements UsageHistory {
  readonly rows: Row[] = [];
  readonly now: () => number;
  reads = 0;
  /** Rejects readings with it. */
  fault: Error | null = null;

  constructor(now: () => number = Date.now) {
    this.now = now;
  }

  open(demand: Demand): Row {
    const row = { ...demand, startedAt: this.now(), open: true, billed: true, tokens: 0, pico: 0n };
    this.rows.push(row);
    return row;
  }

  async usedBy(accountId: string, atMs: number, recentMs: number): Promise<HistoryEntry[]> {
    this.reads++;
    if (this.fault) throw this.fault;
    const rows = this.rows.filter((row) => row.accountId === accountId);
    const day = new Date(atMs).toISOString().slice(0, 10);
    const entries = rows.map((row) => entryOf(row, day, atMs - recentMs));
    // As a database, it answers later with what it saw.
    await new Promise((resolve) => setImmediate(resolve));
    return entries;
  }
}

function entryOf(row: Row, day: string, recentFrom: number): HistoryEntry {
  const started = new Date(row.startedAt).toISOString();
  const today = started.startsWith(day);
  const month = started.startsWith(day.slice(0, 7));
  const recent = row.startedAt >= recentFrom && (row.open || row.billed);
  return {
    keyId: row.keyId,
    model: row.model,
    dayTokens: today ? row.tokens : 0,
    monthTokens: month ? row.tokens : 0,
    monthPico: month ? row.pico : 0n,
    openDayTokens: today && row.open ? row.worstTokens : 0,
    openMonthTokens: month && row.open ? row.worstTokens : 0,
    openMonthPico: month && row.open ? row.worstPico : 0n,
    recentRequests: recent ? 1 : 0,
    recentTokens: recent ? (row.open ? row.worstTokens : row.tokens) : 0,
  };
}

/** Short enough for tests, long enough for a busy machine. */
export const TIMING: ValkeyTiming = { beatMs: 100, answerMs: 5000, leaseMs: 1000, retryMs: 50 };

/** Opens one copy on a Valkey. */
export function openCopy(
  url: string,
  history: UsageHistory,
  options: Partial<ValkeyLimitsOptions> = {},
): Promise<Limits> {
  return openValkeyLimits({
    url: new Secret(url),
    history,
    log: SILENT,
    whenStoreIsAway: 'local',
    reservedShare: 0.25,
    copyId: randomUUID(),
    timing: TIMING,
    ...options,
  });
}

export const MEMORY: Kind = {
  name: 'in memory',
  skip: false,
  async open(reservedShare = 0.25) {
    const ledger = new FakeLedger();
    return new Fleet(ledger, [openMemoryLimits({ history: ledger, reservedShare })]);
  },
};

export const VALKEY: Kind = {
  name: 'in Valkey, three copies',
  skip: withoutValkey,
  async open(reservedShare = 0.25) {
    const ledger = new FakeLedger();
    const url = await valkeyUrl();
    const copies = [1, 2, 3].map(() => openCopy(url, ledger, { reservedShare }));
    return new Fleet(ledger, await Promise.all(copies));
  },
};

export const KINDS: readonly Kind[] = [MEMORY, VALKEY];

/** A request of one account and key; one token and no money unless told otherwise. */
export function demand(planLimits: PlanLimits, fields: Partial<Demand> = {}): Demand {
  return {
    accountId: 'acct_1',
    keyId: 'key_1',
    model: 'test/model',
    plan: 'standard',
    planLimits,
    keyLimits: null,
    worstTokens: 1,
    worstPico: 0n,
    ...fields,
  };
}

/** A flat list of header names and values as an object. */
export function headersOf(headers: RateLimitHeaders): Record<string, string> {
  const entries: [string, string][] = [];
  for (let index = 0; index < headers.length; index += 2) {
    entries.push([headers[index] ?? '', headers[index + 1] ?? '']);
  }
  return Object.fromEntries(entries);
}
