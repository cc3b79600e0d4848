import type { Database } from '../../database/database.ts';
import { readAppliedLimits, type AppliedLimit } from '../limits/limit-status.ts';
import { costLines, type CostLine } from './cost.ts';
import { selectRecords, toRecord, type LedgerRecord } from './record.ts';

export interface Receipt {
  request: LedgerRecord;
  /** Breakdown of `request.costPico`. Empty while the request runs. */
  cost: CostLine[];
  appliedLimits: AppliedLimit[];
  /** Duration of each stage in milliseconds; null: not completed, or unknown. */
  stages: {
    /** Until an engine assigned a slot. */
    queueMs: number | null;
    /** From the slot to the first token. */
    prefillMs: number | null;
    /** From the first token to the end. */
    decodeMs: number | null;
  };
  /** Number of other replicas tried after one failed. */
  retries: number;
  /** Whether the instance died or stopped during the request. If so, the counts are those of the last checkpoint. */
  interrupted: boolean;
}

/** Maximum receipts for one client request ID. */
const MAX_RECEIPTS = 200;

/** Returns the receipt of a request; null if the account has no such request. Rejects with a `DatabaseError`. */
export async function readReceipt(
  database: Database,
  requestId: string,
  accountId: string | null,
): Promise<Receipt | null> {
  const row = await selectRecords(database.reports)
    .where('id', '=', requestId)
    .$if(accountId !== null, (query) => query.where('account_id', '=', accountId ?? ''))
    .executeTakeFirst();
  return row === undefined ? null : toReceipt(toRecord(row));
}

/**
 * Returns the receipts of an account's requests with this client request ID, newest first, up to 200. Rejects
 * with a `DatabaseError`.
 */
export async function readReceiptsOf(
  database: Database,
  accountId: string,
  clientRequestId: string,
): Promise<Receipt[]> {
  const rows = await selectRecords(database.reports)
    .where('account_id', '=', accountId)
    .where('client_request_id', '=', clientRequestId)
    .orderBy('id', 'desc')
    .limit(MAX_RECEIPTS)
    .execute();
  return rows.map((row) => toReceipt(toRecord(row)));
}

function toReceipt(request: LedgerRecord): Receipt {
  const { startedAt, slotAt, firstTokenAt, endedAt, pricePrompt, priceCompletion } = request;
  const price = { prompt: pricePrompt, completion: priceCompletion };
  return {
    request,
    cost: request.state === 'open' ? [] : costLines(request, price, request.billed),
    appliedLimits: readAppliedLimits(request.limits),
    stages: {
      queueMs: between(startedAt, slotAt),
      prefillMs: between(slotAt, firstTokenAt),
      decodeMs: between(firstTokenAt, endedAt),
    },
    retries: Math.max(0, request.attempts - 1),
    interrupted: request.state === 'interrupted',
  };
}

function between(from: number | null, to: number | null): number | null {
  return from === null || to === null ? null : to - from;
}
