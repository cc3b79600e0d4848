import type { TortureCaller } from './accounts.ts';
import type { Difference } from './compare.ts';
import { BUDGET_TOKENS } from './configuration.ts';
import type { Row } from './ledger.ts';
import type { Stage } from './stage.ts';

/** An element of `GET /api/limits`. */
interface Standing {
  scope: 'account' | 'key';
  limit: string;
  used: number | string;
}

const DAY_MS = 86_400_000;
const PICO_A_MICRO = 1_000_000n;
const MICROS_A_USD = 1_000_000;

/** Compares what every copy says of limits with the rows, and what the account with a small budget has used with that. */
export async function compareLimits(stage: Stage, rows: readonly Row[]): Promise<Difference[]> {
  const differences: Difference[] = [];
  for (const { url } of stage.copies) {
    for (const caller of stage.callers) {
      const standings = await readStandings(url, stage.adminKey, caller);
      for (const standing of standings) {
        const what = differenceOf(standing, caller, rows, Date.now());
        if (what !== null) differences.push({ kind: 'doubled', what: `${url} ${what}` });
      }
    }
  }
  for (const { account } of stage.callers.filter(({ plan }) => plan === 'budget')) {
    for (const [day, own] of Map.groupBy(billed(rows, account), dayOf)) {
      const used = tokensOf(own);
      if (used > BUDGET_TOKENS)
        differences.push({
          kind: 'wrong',
          what: `${used} tokens of ${BUDGET_TOKENS} are used on day ${day}`,
        });
    }
  }
  return differences;
}

async function readStandings(url: string, adminKey: string, caller: TortureCaller): Promise<Standing[]> {
  const query = new URLSearchParams({ account_id: caller.account, key_id: caller.keyId });
  const headers = { authorization: `Bearer ${adminKey}` };
  const answer = await fetch(`${url}/api/limits?${query.toString()}`, { headers });
  if (!answer.ok) throw new Error(`${url}/api/limits answers ${answer.status}: ${await answer.text()}`);
  // A page of our own management interface.
  const { data } = (await answer.json()) as { data: Standing[] };
  return data;
}

/** In words; null where the limit stands as its rows say. */
function differenceOf(
  { scope, limit, used }: Standing,
  { account, keyId, plan }: TortureCaller,
  rows: readonly Row[],
  nowMs: number,
): string | null {
  const own = billed(rows, account).filter((row) => scope === 'account' || row.key_id === keyId);
  const today = own.filter((row) => dayOf(row) === Math.floor(nowMs / DAY_MS));
  const month = own.filter((row) => monthOf(row.started_at) === monthOf(nowMs));
  const said = `says ${used} of ${limit} (${scope}, ${plan}); its rows say`;
  switch (limit) {
    case 'requests_in_flight':
      return used === 0 ? null : `${said} 0`;
    case 'tokens_per_day':
      return used === tokensOf(today) ? null : `${said} ${tokensOf(today)}`;
    case 'tokens_per_month':
      return used === tokensOf(month) ? null : `${said} ${tokensOf(month)}`;
    case 'usd_per_month': {
      const pico = month.reduce((sum, { cost_pico: cost }) => sum + cost, 0n);
      const least = Number((pico + PICO_A_MICRO - 1n) / PICO_A_MICRO);
      // A thousandth of a micro-dollar may be rounded up with each request.
      const most = least + 1 + month.length / 1000;
      const micros = Math.round(Number(used) * MICROS_A_USD);
      return micros >= least && micros <= most ? null : `${said} ${least} micro-dollars`;
    }
    default:
      // Buckets fill up again while we look.
      return null;
  }
}

function billed(rows: readonly Row[], account: string): Row[] {
  return rows.filter((row) => row.billed && row.account_id === account);
}

function tokensOf(rows: readonly Row[]): number {
  return rows.reduce((sum, row) => sum + row.prompt_tokens + row.completion_tokens, 0);
}

function dayOf({ started_at: startedAt }: Row): number {
  return Math.floor(startedAt / DAY_MS);
}

function monthOf(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 'YYYY-MM'.length);
}
