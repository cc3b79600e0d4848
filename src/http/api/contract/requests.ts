import { z } from 'zod';
import { DEFAULT_PAGE, MOST_REQUESTS } from '../../../accounts/bounds.ts';
import { REQUEST_OUTCOMES } from '../../../accounts/ledger/dimensions.ts';
import { receipt, request } from './ledger.ts';
import { operations } from './operation.ts';
import { filterText, id, moment, newestPageQuery, pageOf } from './schemas.ts';

/** The log of requests, and what is known of each. */
export const requestOperations = operations({
  listRequests: {
    method: 'GET',
    path: '/api/requests',
    summary: 'List requests, the newest first.',
    access: 'member',
    query: z.strictObject({
      account_id: id.optional().describe('Left out: of all accounts, for operators alone.'),
      key_id: id.optional(),
      model: filterText.optional(),
      state: z.enum(['open', 'settled', 'interrupted']).optional(),
      outcome: z
        .enum(REQUEST_OUTCOMES)
        .optional()
        .describe('How it ended, as the sums of usage count it; a caller who hung up is no error.'),
      status_class: z.coerce
        .number<number>()
        .int()
        .min(2)
        .max(5)
        .optional()
        .describe('First digit of the HTTP status.'),
      error_code: filterText.optional().describe('Code of an error, or `hung_up`.'),
      from: moment.optional().describe('Those that came then or later; ISO 8601 with a time zone.'),
      to: moment.optional().describe('Those that came before; ISO 8601 with a time zone.'),
      ...newestPageQuery,
      limit: z.coerce
        .number<number>()
        .int()
        .min(1)
        .max(MOST_REQUESTS)
        .default(DEFAULT_PAGE)
        .describe('Most elements of the page.'),
    }),
    answer: pageOf('RequestPage', request),
    errors: ['missing_required_parameter', 'not_found'],
  },
  getReceipt: {
    method: 'GET',
    path: '/api/receipts/{id}',
    summary: 'Tell all that is known of one request. Any live key of its account may ask.',
    access: 'account',
    answer: receipt,
    errors: ['not_found'],
  },
  listReceipts: {
    method: 'GET',
    path: '/api/receipts',
    summary:
      "Tell all that is known of the requests that carried a caller's own id, the newest first, 200 at most.",
    access: 'account',
    query: z.strictObject({
      client_request_id: z
        .string()
        .regex(/^[\x20-\x7e]{1,512}$/, 'expected 1 to 512 printable ASCII characters')
        .describe('What the caller sent as `x-client-request-id`.'),
      account_id: id.optional().describe("Left out: the key's own account."),
    }),
    answer: pageOf('ReceiptPage', receipt),
    errors: ['missing_required_parameter', 'not_found'],
  },
});
