import { UUID } from '../../accounts/bounds.ts';
import { picoOfUsd } from '../../accounts/ledger/cost.ts';
import { requestJson } from '../../accounts/ledger/request-json.ts';
import { readRequest, readRequests, readRequestsOf } from '../../accounts/ledger/requests.ts';
import { ownerNames, withNames } from '../../accounts/names.ts';
import { countRefusals, readRefusals } from '../../accounts/refusals.ts';
import type { AccountDatabase } from '../../accounts/store.ts';
import { ServiceError } from '../../core/errors.ts';
import { requestOperations } from './contract/requests.ts';
import { endpoints } from './endpoint.ts';
import { iso, pageJson } from './json.ts';
import { receiptJson } from './receipt-json.ts';

const MAX_REFUSALS = 500;

/** Returns which refusals were asked for: those of a period, or of the last hours. */
function refusalFilter(
  accountId: string | null,
  { key_id, hours, from, to }: { key_id?: string; hours: number; from?: string; to?: string },
) {
  return {
    accountId,
    keyId: key_id,
    fromMs: from === undefined ? Date.now() - hours * 3_600_000 : Date.parse(from),
    toMs: to === undefined ? null : Date.parse(to),
  };
}

const REQUESTS = {
  accountOf: async (database: AccountDatabase, id: string) => (await findRequest(database, id)).account_id,
  missing: noSuchRequest,
};

export const requestEndpoints = endpoints(
  requestOperations,
  {
    listRequests: async ({ database, accountId, query }) => {
      const filter = {
        accountId,
        keyId: query.key_id,
        model: query.model,
        client: query.client,
        state: query.state,
        outcome: query.outcome,
        statusClass: query.status_class as 2 | 3 | 4 | 5 | undefined, // The schema allows only these values.
        errorCode: query.error_code,
        fromMs: query.from === undefined ? null : Date.parse(query.from),
        toMs: query.to === undefined ? null : Date.parse(query.to),
        minDurationMs: query.min_duration_ms,
        minTtftMs: query.min_ttft_ms,
        minTokens: query.min_tokens,
        minCostPico: query.min_cost_usd === undefined ? null : picoOfUsd(query.min_cost_usd),
        note: query.note,
      };
      const page = await readRequests(database, filter, { limit: query.limit, before: query.cursor ?? null });
      return { data: await withNames(database, page.requests.map(requestJson)), next_cursor: page.next };
    },
    listRefusals: async ({ database, context, accountId, query }) => {
      await context.refusals.flush();
      const items = await readRefusals(database, {
        ...refusalFilter(accountId, query),
        byHour: query.by === 'hour',
        limit: MAX_REFUSALS,
      });
      const rows = items.map(({ accountId: account_id, keyId: key_id, lastAt, ...item }) => ({
        account_id,
        key_id,
        code: item.code,
        param: item.param,
        count: item.count,
        last_at: iso(lastAt),
        message: item.message,
      }));
      return { data: await withNames(database, rows), next_cursor: null };
    },
    countRefusals: async ({ database, context, accountId, query }) => {
      await context.refusals.flush();
      const items = await countRefusals(database, refusalFilter(accountId, query));
      return pageJson({ items, nextCursor: null }, ({ hourMs, count }) => ({ hour: iso(hourMs), count }));
    },
    getReceipt: async ({ database, context, params }) => {
      const row = await findRequest(database, params.id);
      const names = await ownerNames(database, [row]);
      return receiptJson({ ...row, ...names(row) }, context.router.prefillOf(params.id));
    },
    listReceipts: async ({ database, context, principal, accountId, query }) => {
      const account = accountId ?? principal.key?.accountId;
      if (account === undefined) {
        throw new ServiceError('missing_required_parameter', '`account_id` is required.', {
          param: 'account_id',
        });
      }
      const items = await readRequestsOf(database, account, query.client_request_id);
      return pageJson({ items: await withNames(database, items), nextCursor: null }, (item) =>
        receiptJson(item, context.router.prefillOf(item.id)),
      );
    },
  },
  REQUESTS,
);

async function findRequest(database: AccountDatabase, id: string) {
  const request = UUID.test(id) ? await readRequest(database, id) : null;
  if (request === null) throw noSuchRequest();
  return request;
}

function noSuchRequest(): ServiceError {
  return new ServiceError('not_found', 'No request with this ID is in the ledger, or you may not see it.', {
    param: 'id',
  });
}
