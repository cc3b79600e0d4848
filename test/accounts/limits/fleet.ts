import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { PlanLimits } from '../../../src/config/plan.ts';
import type {
  Consumption,
  Decision,
  Demand,
  Denial,
  HistoryEntry,
  Limiter,
  RateLimitHeaders,
  Reservation,
  LimitHistory,
  LimitHolders,
} from '../../../src/accounts/limits/limiter.ts';
import { MemoryLimiter } from '../../../src/accounts/limits/memory.ts';
import type { ValkeyTiming } from '../../../src/accounts/limits/valkey-connection.ts';
import { limitScripts } from '../../../src/accounts/limits/valkey-scripts.ts';
import { openValkeyLimiter, type ValkeyLimiterOptions } from '../../../src/accounts/limits/valkey.ts';
import { SILENT } from '../../../src/support/log.ts';
import { Secret } from '../../../src/support/secret.ts';
import { until } from '../../harness.ts';
import { valkeyUrl, withoutValkey } from '../../support/servers.ts';

/** A kind of limits on a stopped clock: one instance in memory, or several on one Valkey. */
export interface Kind {
  name: string;
  skip: string | false;
  open(reservedShare?: number): Promise<Fleet>;
}

/** Instances that share limits, and their common ledger. */
export class Fleet implements AsyncDisposable {
  readonly ledger: FakeLedger;
  readonly instances: readonly Limiter[];

  constructor(ledger: FakeLedger, instances: readonly Limiter[]) {
    this.ledger = ledger;
    this.instances = instances;
  }

  /** Sends a demand to an instance, and opens a row if it is admitted. */
  async admit(demand: Demand, instance = 0): Promise<Decision & { request?: Request }> {
    const limits = this.instances[instance % this.instances.length];
    assert.ok(limits);
    const asked = { ...demand, requestId: randomUUID() };
    const decision = await limits.admit(asked);
    if (!decision.admitted) return decision;
    const row = this.ledger.open(asked);
    return { ...decision, request: new Request(limits, decision.reservation, row) };
  }

  /** As `admit`; fails unless the demand is admitted. */
  async run(demand: Demand, instance = 0): Promise<Request> {
    const { request, ...decision } = await this.admit(demand, instance);
    assert.ok(
      request,
      JSON.stringify(decision, (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value)),
    );
    return request;
  }

  /** As `admit`; fails unless the demand is denied. */
  async denied(demand: Demand, instance = 0): Promise<Denial & { headers: RateLimitHeaders }> {
    const decision = await this.admit(demand, instance);
    assert.ok(!decision.admitted, 'it was admitted');
    return { ...decision.denial, headers: decision.headers };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const instance of this.instances) await instance[Symbol.asyncDispose]();
  }
}

/** An admitted request. Settles in the ledger first, as the service does. */
export class Request {
  readonly reservation: Reservation;
  readonly #limits: Limiter;
  readonly #row: Row;

  constructor(limits: Limiter, reservation: Reservation, row: Row) {
    this.#limits = limits;
    this.reservation = reservation;
    this.#row = row;
  }

  get id(): string {
    return this.#row.requestId;
  }

  /** Settles the request with what it used. */
  end(tokens: number, pico = 0n): Promise<void> {
    return this.#settle({ tokens, pico, request: true });
  }

  /** Settles only the row; `end` also settles the limits. */
  endRow(tokens: number, pico = 0n): void {
    this.#endRow({ tokens, pico, request: true });
  }

  /** Settles the request as failed by the service. */
  fail(): Promise<void> {
    return this.#settle({ tokens: 0, pico: 0n, request: false });
  }

  /** Resolves when all instances see the result. Responses arrive in order, so one later command is enough. */
  async #settle(actual: Consumption): Promise<void> {
    this.#endRow(actual);
    this.#limits.release(this.reservation, actual);
    await this.#limits.currentHeaders(this.#row);
  }

  #endRow({ tokens, pico, request }: Consumption): void {
    Object.assign(this.#row, { open: false, billed: request, tokens, pico });
  }
}

interface Row extends Demand {
  startedAt: number;
  open: boolean;
  billed: boolean;
  tokens: number;
  pico: bigint;
}

/** A ledger in memory. */
export class FakeLedger implements LimitHistory {
  readonly rows: Row[] = [];
  readonly now: () => number;
  reads = 0;
  /** Whose usage was read last. */
  lastRead: LimitHolders | null = null;
  /** Called by a read before and after it takes its snapshot. */
  beforeSnapshot: () => unknown = () => {};
  afterSnapshot: () => unknown = () => {};
  /** If set, reads reject with it. */
  fault: Error | null = null;

  constructor(now: () => number = Date.now) {
    this.now = now;
  }

  open(demand: Demand): Row {
    const row = { ...demand, startedAt: this.now(), open: true, billed: true, tokens: 0, pico: 0n };
    this.rows.push(row);
    return row;
  }

  async read(
    holders: LimitHolders,
    atMs: number,
    recentMs: number,
    exceptIds: readonly string[],
  ): Promise<HistoryEntry[]> {
    this.reads++;
    this.lastRead = holders;
    const { accountId, keyIds, otherKeys } = holders;
    await Promise.resolve();
    await this.beforeSnapshot();
    if (this.fault) throw this.fault;
    const rows = this.rows.filter((row) => row.accountId === accountId);
    const day = new Date(atMs).toISOString().slice(0, 10);
    const entries = rows
      .flatMap((row) => entriesOf(row, day, atMs - recentMs, exceptIds))
      .map((entry) => (keyIds.includes(entry.keyId) ? entry : { ...entry, keyId: '' }))
      .filter(({ keyId }) => otherKeys || keyId !== '');
    // Resolves later, as a database does.
    await new Promise((resolve) => setImmediate(resolve));
    await this.afterSnapshot();
    return entries;
  }
}

function entriesOf(row: Row, day: string, recentFrom: number, exceptIds: readonly string[]): HistoryEntry[] {
  const { keyId, model, worstTokens, worstPico, tokens, pico } = row;
  const started = new Date(row.startedAt).toISOString();
  const month = started.startsWith(day.slice(0, 7)) ? (['month'] as const) : [];
  const windows = started.startsWith(day) ? (['day', 'month'] as const) : month;
  const entries: HistoryEntry[] = [];
  const add = (entry: Pick<HistoryEntry, 'state' | 'windows' | 'tokens'> & Partial<HistoryEntry>) =>
    entries.push({ keyId, model, requests: 0, pico: 0n, ...entry });
  if (!exceptIds.includes(row.requestId)) {
    if (row.open) add({ state: 'reserved', windows, tokens: worstTokens, pico: worstPico });
    add({ state: 'settled', windows, tokens, pico });
  }
  if (row.startedAt >= recentFrom && (row.open || row.billed)) {
    add({ state: 'settled', windows: ['minute'], requests: 1, tokens: row.open ? worstTokens : tokens });
  }
  return entries;
}

/** The lease is short for tests that wait for its end, but longer than a busy machine stands still. */
export const TIMING: ValkeyTiming = { heartbeatMs: 100, responseMs: 5000, leaseMs: 3000, retryMs: 50 };

/** Opens an instance on a Valkey. */
export function openInstance(
  url: string,
  history: LimitHistory,
  options: Partial<ValkeyLimiterOptions> = {},
): Promise<Limiter> {
  return openValkeyLimiter({
    url: new Secret(url),
    history,
    log: SILENT,
    whenStoreUnavailable: 'local',
    reservedShare: 0.25,
    instanceId: randomUUID(),
    timing: TIMING,
    ...options,
  });
}

/**
 * The stopped clock of a fleet. It is far from the end of a day and of a month, where limits of a day or a month would end
 * before those of a minute.
 */
const NOW = Date.UTC(2026, 5, 15, 12);

export const MEMORY: Kind = {
  name: 'in memory',
  skip: false,
  async open(reservedShare = 0.25) {
    const ledger = new FakeLedger(() => NOW);
    const clock = { now: () => NOW, elapsed: () => 0 };
    return new Fleet(ledger, [new MemoryLimiter({ history: ledger, reservedShare, clock })]);
  },
};

export const VALKEY: Kind = {
  name: 'in Valkey, three instances',
  skip: withoutValkey,
  async open(reservedShare = 0.25) {
    const ledger = new FakeLedger(() => NOW);
    const url = await valkeyUrl();
    const scripts = limitScripts(`local now = ${NOW}`);
    // A slow response would disconnect an instance, and its old lease never expires on a stopped clock.
    const timing = { ...TIMING, responseMs: 60_000 };
    const instances = [1, 2, 3].map(() => openInstance(url, ledger, { reservedShare, scripts, timing }));
    const fleet = new Fleet(ledger, await Promise.all(instances));
    // Each instance raises the generation when it starts. Once all see each other, all have the last generation.
    await until(() => instancesSeen(fleet) === 3);
    return fleet;
  },
};

/** Returns the smallest number of instances that any instance sees. */
export function instancesSeen(fleet: Fleet): number {
  return Math.min(
    ...fleet.instances.map((instance) => (instance as unknown as { instances: number }).instances),
  );
}

export const KINDS: readonly Kind[] = [MEMORY, VALKEY];

/** Returns a demand of one token without cost, unless overridden. `Fleet.admit` gives each request its own ID. */
export function demand(planLimits: PlanLimits, fields: Partial<Demand> = {}): Demand {
  return {
    requestId: '',
    accountId: 'acct_1',
    keyId: 'key_1',
    model: 'test/model',
    plan: 'standard',
    planLimits,
    keyLimits: null,
    worstTokens: 1,
    worstPico: 0n,
    shortest: () => ({ tokens: 1, pico: 0n }),
    ...fields,
  };
}

/** Converts a flat list of headers to an object. */
export function headersOf(headers: RateLimitHeaders): Record<string, string> {
  const entries: [string, string][] = [];
  for (let index = 0; index < headers.length; index += 2) {
    entries.push([headers[index] ?? '', headers[index + 1] ?? '']);
  }
  return Object.fromEntries(entries);
}
