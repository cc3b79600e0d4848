import { randomUUIDv7 } from 'node:crypto';
import { openLedger } from '../../src/accounts/ledger/open-ledger.ts';
import type { OpenedRow, RunningCounts } from '../../src/accounts/ledger/ledger.ts';
import { configSchema } from '../../src/config/schema.ts';
import type { Database } from '../../src/database/database.ts';
import { SILENT } from '../../src/support/log.ts';
import { median } from '../statistics.ts';

export interface WriteCost {
  inFlight: number;
  /** CPU of this process to open and settle one request, in microseconds. */
  cpuUs: number;
  /** Median waits, in milliseconds. */
  openMs: number;
  settleMs: number;
}

/** Measures the cost of opening and settling requests, with `inFlight` at the same time. */
export async function writeCost(database: Database, inFlight: number, requests: number): Promise<WriteCost> {
  await using ledger = await openLedger({
    database,
    settings: configSchema.parse({}).ledger,
    log: SILENT,
    onFenced: () => {},
    onReaped: () => {},
  });
  const waits: Record<'open' | 'settle', number[]> = { open: [], settle: [] };
  let left = requests;
  const caller = async () => {
    while (left-- > 0) {
      const row = createRow();
      const startedAt = performance.now();
      await ledger.open(row, COUNTS);
      const openedAt = performance.now();
      await ledger.settle(row.id, { ...COUNTS, ...OUTCOME, endedAt: Date.now() });
      waits.open.push(openedAt - startedAt);
      waits.settle.push(performance.now() - openedAt);
    }
  };
  const before = process.cpuUsage();
  await Promise.all(Array.from({ length: inFlight }, caller));
  const { user, system } = process.cpuUsage(before);
  return {
    inFlight,
    cpuUs: (user + system) / requests,
    openMs: median(waits.open),
    settleMs: median(waits.settle),
  };
}

const COUNTS: RunningCounts = {
  usage: { promptTokens: 500, completionTokens: 100, cachedTokens: 0, reasoningTokens: 0 },
  usageSource: 'engine',
  replica: 'engine',
  slotAt: Date.now(),
  firstTokenAt: Date.now(),
};

const OUTCOME = {
  attempts: 1,
  cacheMissTokens: 0,
  continuedAfter: null,
  finishReason: 'stop' as const,
  errorCode: null,
  httpStatus: 200,
  delivered: true,
  billed: true,
};

function createRow(): OpenedRow {
  return {
    id: randomUUIDv7(),
    clientRequestId: null,
    accountId: `acct_${Math.floor(Math.random() * 10)}`,
    keyId: 'key_1',
    client: 'OpenAI Python',
    endpoint: 'chat',
    model: 'bench/small',
    streamed: true,
    startedAt: Date.now(),
    plan: 'standard',
    limits: '[]',
    reservedTokens: 4096,
    reservedPico: 2_457_600_000n,
    pricePrompt: 150_000,
    priceCompletion: 600_000,
  };
}
