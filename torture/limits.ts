import type { TortureCaller } from './accounts.ts';
import type { Difference } from './compare.ts';
import { BUDGET_TOKENS } from './configuration.ts';
import type { LedgerRow } from './ledger.ts';
import type { Testbed } from './testbed.ts';

/** An element of `GET /api/limits`. */
interface LimitUsage {
  scope: 'account' | 'key';
  limit: string;
  used: number | string;
}

const DAY_MS = 86_400_000;
const PICO_PER_MICRO = 1_000_000n;
const MICROS_PER_USD = 1_000_000;

/** Compares the rows with the limits that every instance reports, and checks the small budget. */
export async function compareLimits(testbed: Testbed, rows: readonly LedgerRow[]): Promise<Difference[]> {
  const differences: Difference[] = [];
  for (const { url } of testbed.instances) {
    for (const caller of testbed.callers) {
      const limits = await readLimits(url, testbed.adminKey, caller);
      for (const limit of limits) {
        const what = differenceOf(limit, caller, rows, Date.now());
        if (what !== null) differences.push({ kind: 'doubled', what: `${url} ${what}` });
      }
    }
  }
  for (const { account } of testbed.callers.filter(({ plan }) => plan === 'budget')) {
    for (const [day, own] of Map.groupBy(billed(rows, account), dayOf)) {
      const used = tokensOf(own);
      if (used > BUDGET_TOKENS)
        differences.push({
          kind: 'wrong',
          what: `${used} of ${BUDGET_TOKENS} tokens are used on day ${day}`,
        });
    }
  }
  return differences;
}

async function readLimits(url: string, adminKey: string, caller: TortureCaller): Promise<LimitUsage[]> {
  const query = new URLSearchParams({ account_id: caller.account, key_id: caller.keyId });
  const headers = { authorization: `Bearer ${adminKey}` };
  const response = await fetch(`${url}/api/limits?${query.toString()}`, { headers });
  if (!response.ok) throw new Error(`${url}/api/limits: ${response.status} ${await response.text()}`);
  // According to the contract of the management API.
  const { data } = (await response.json()) as { data: LimitUsage[] };
  return data;
}

/** Describes the difference between a limit and its rows; null: none. */
function differenceOf(
  { scope, limit, used }: LimitUsage,
  { account, keyId, plan }: TortureCaller,
  rows: readonly LedgerRow[],
  nowMs: number,
): string | null {
  const own = billed(rows, account).filter((row) => scope === 'account' || row.key_id === keyId);
  const reported = `reports ${used} for ${limit} (${scope}, ${plan}), not`;
  if (limit === 'requests_in_flight') return used === 0 ? null : `${reported} 0`;
  const [, unit, window] = /^(tokens|usd)_per_(day|month)$/.exec(limit) ?? [];
  // Token buckets refill continuously.
  if (unit === undefined) return null;
  const counted = own.filter((row) =>
    window === 'day' ? dayOf(row) === Math.floor(nowMs / DAY_MS) : monthOf(row.started_at) === monthOf(nowMs),
  );
  if (unit === 'tokens') return used === tokensOf(counted) ? null : `${reported} ${tokensOf(counted)}`;
  const pico = counted.reduce((sum, { cost_pico: cost }) => sum + cost, 0n);
  const least = Number((pico + PICO_PER_MICRO - 1n) / PICO_PER_MICRO);
  // Each request may be rounded up by a thousandth of a micro-dollar.
  const most = least + 1 + counted.length / 1000;
  const micros = Math.round(Number(used) * MICROS_PER_USD);
  return micros >= least && micros <= most ? null : `${reported} ${least} micro-dollars`;
}

function billed(rows: readonly LedgerRow[], account: string): LedgerRow[] {
  return rows.filter((row) => row.billed && row.account_id === account);
}

function tokensOf(rows: readonly LedgerRow[]): number {
  return rows.reduce((sum, row) => sum + row.prompt_tokens + row.completion_tokens, 0);
}

function dayOf({ started_at: startedAt }: LedgerRow): number {
  return Math.floor(startedAt / DAY_MS);
}

function monthOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 'YYYY-MM'.length);
}
