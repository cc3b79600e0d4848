import { z } from 'zod';
import { readReceipt, readReceiptsOf } from '../../accounts/ledger/receipt.ts';
import { MOST_REQUESTS, readRequests } from '../../accounts/ledger/requests.ts';
import { DEFAULT_PAGE, invalidCursor } from '../../accounts/page.ts';
import { ServiceError } from '../../errors.ts';
import { endpoint, type Endpoint } from './endpoint.ts';
import { receipt, receiptJson, request, requestJson } from './ledger-json.ts';
import { filterText, id, moment, pageJson, pageOf, pageQuery } from './schemas.ts';

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The log of requests, and what is known of each. */
export const requestEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/api/requests',
    operationId: 'listRequests',
    summary: 'List requests, the newest first.',
    query: z.strictObject({
      account_id: id.optional(),
      key_id: id.optional(),
      model: filterText.optional(),
      state: z.enum(['open', 'settled', 'interrupted']).optional(),
      status_class: z.coerce
        .number()
        .int()
        .min(2)
        .max(5)
        .optional()
        .describe('First digit of the HTTP status.'),
      error_code: filterText.optional().describe('Code of an error, or `hung_up`.'),
      from: moment.optional().describe('Those that came then or later; ISO 8601 with a time zone.'),
      to: moment.optional().describe('Those that came before; ISO 8601 with a time zone.'),
      ...pageQuery,
      limit: z.coerce
        .number()
        .int()
        .min(1)
        .max(MOST_REQUESTS)
        .default(DEFAULT_PAGE)
        .describe('Most elements of the page.'),
    }),
    answer: pageOf('RequestPage', request),
    handle: async ({ database, query }) => {
      if (query.cursor !== undefined && !UUID.test(query.cursor)) throw invalidCursor();
      const filter = {
        accountId: query.account_id,
        keyId: query.key_id,
        model: query.model,
        state: query.state,
        statusClass: query.status_class as 2 | 3 | 4 | 5 | undefined, // The schema bounds it.
        errorCode: query.error_code,
        fromMs: query.from === undefined ? null : Date.parse(query.from),
        toMs: query.to === undefined ? null : Date.parse(query.to),
      };
      const page = await readRequests(database, filter, { limit: query.limit, before: query.cursor ?? null });
      return pageJson({ items: page.requests, nextCursor: page.next }, requestJson);
    },
  }),
  endpoint({
    method: 'GET',
    path: '/api/receipts/{id}',
    operationId: 'getReceipt',
    summary: 'Tell all that is known of one request. Any live key of its account may ask.',
    access: 'any',
    answer: receipt,
    errors: ['not_found'],
    handle: async ({ database, caller, params }) => {
      const found = UUID.test(params.id)
        ? await readReceipt(database, params.id, caller.kind === 'admin' ? null : caller.accountId)
        : null;
      if (found !== null) return receiptJson(found);
      throw new ServiceError('not_found', 'No request of this id is in the ledger for this key.', {
        param: 'id',
      });
    },
  }),
  endpoint({
    method: 'GET',
    path: '/api/receipts',
    operationId: 'listReceipts',
    summary:
      "Tell all that is known of the requests that carried a caller's own id, the newest first, 200 at most.",
    access: 'any',
    query: z.strictObject({
      client_request_id: z
        .string()
        .regex(/^[\x20-\x7e]{1,512}$/, 'expected 1 to 512 printable ASCII characters')
        .describe('What the caller sent as `x-client-request-id`.'),
      account_id: id
        .optional()
        .describe("Left out: the key's own account. Others' are there for admins alone."),
    }),
    answer: pageOf('ReceiptPage', receipt),
    handle: async ({ database, caller, query }) => {
      const accountId = query.account_id ?? caller.accountId;
      const allowed = caller.kind === 'admin' || accountId === caller.accountId;
      const items = allowed ? await readReceiptsOf(database, accountId, query.client_request_id) : [];
      return pageJson({ items, nextCursor: null }, receiptJson);
    },
  }),
];
