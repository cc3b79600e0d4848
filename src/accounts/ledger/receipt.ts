import type { Database } from '../../database/database.ts';
import { readHeldLimits, type HeldLimit } from '../limits/held-against.ts';
import { costLines, type CostLine } from './cost.ts';
import { selectRecords, toRecord, type LedgerRecord } from './record.ts';

/** All that is known of one request. */
export interface Receipt {
  request: LedgerRecord;
  /** How `request.costPico` came about: the lines add up to it. None while it runs: nothing is charged yet. */
  cost: CostLine[];
  heldAgainst: HeldLimit[];
  /** How long each stage took, in milliseconds; null: it did not come to its end, or is not known. */
  stages: {
    /** Until an engine gave it a slot. */
    queueMs: number | null;
    /** From there to the first token. */
    prefillMs: number | null;
    /** From there to the end. */
    decodeMs: number | null;
  };
  /** How often it was given to another replica after one had refused it. */
  retries: number;
  /** Whether the copy that ran it died or was stopped: the counts are those of the last checkpoint. */
  interrupted: boolean;
}

/** Most receipts that one client request id gives. */
const MOST_RECEIPTS = 200;

/** The receipt of a request; null where the account has none of this id. Rejects with a `DatabaseError`. */
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
 * The receipts of all requests of an account that carried the caller's own id, newest first, 200 at most. Rejects
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
    .limit(MOST_RECEIPTS)
    .execute();
  return rows.map((row) => toReceipt(toRecord(row)));
}

function toReceipt(request: LedgerRecord): Receipt {
  const { startedAt, slotAt, firstTokenAt, endedAt, pricePrompt, priceCompletion } = request;
  const price = { prompt: pricePrompt, completion: priceCompletion };
  return {
    request,
    cost: request.state === 'open' ? [] : costLines(request, price, request.billed),
    heldAgainst: readHeldLimits(request.limits),
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
