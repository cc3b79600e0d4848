import { z } from 'zod';
import { DEFAULT_PAGE, MAX_REQUESTS_PAGE } from '../../../accounts/bounds.ts';
import { REQUEST_OUTCOMES } from '../../../accounts/ledger/roll-ups.ts';
import { receipt, request } from './ledger.ts';
import { operations } from './operation.ts';
import { requestFilters } from './request-filters.ts';
import {
  clientFilter,
  component,
  filterText,
  id,
  newestPageQuery,
  ownerNames,
  pageOf,
  time,
  timeQuery,
  wholeNumber,
} from './schemas.ts';

const refusal = component(
  'Refusal',
  z.object({
    account_id: z
      .string()
      .nullable()
      .describe(
        'Null: the requests had no valid API key or, with the code `other`, came from several accounts.',
      ),
    key_id: z.string().nullable(),
    ...ownerNames,
    code: z
      .string()
      .describe(
        'Error code; `other`: refusals that were not counted separately, because a minute had too many different ones.',
      ),
    param: z.string().nullable().describe('The invalid field, without indices.'),
    count: z.int().describe('Number of requests.'),
    last_at: time.describe('Time of the last one; ISO 8601 in UTC.'),
    message: z.string().describe('Error message of the last one.'),
  }),
);

const refusalQuery = z.strictObject({
  account_id: id
    .optional()
    .describe('Default, for operators only: all accounts, and also the requests without a valid key.'),
  key_id: id.optional(),
  hours: wholeNumber(1, 168)
    .default(24)
    .describe('How many hours to look back, unless `from` is given. Counts are kept for 7 days.'),
  ...timeQuery('whole minutes with requests that were refused'),
});

export const requestOperations = operations({
  listRequests: {
    route: 'GET /api/requests',
    summary: 'List requests, newest first.',
    access: 'member',
    query: z.strictObject({
      account_id: id.optional().describe('Default: all accounts, for operators only.'),
      key_id: id.optional(),
      model: filterText.optional(),
      client: clientFilter,
      state: z.enum(['open', 'settled', 'interrupted']).optional(),
      outcome: z
        .enum(REQUEST_OUTCOMES)
        .optional()
        .describe('Outcome of the request, as counted in usage. A client that disconnected is not an error.'),
      status_class: wholeNumber(2, 5).optional().describe('First digit of the HTTP status.'),
      error_code: filterText
        .optional()
        .describe('Error code, or `client_disconnected` if the client disconnected.'),
      ...timeQuery('requests that started'),
      ...requestFilters,
      ...newestPageQuery,
      limit: wholeNumber(1, MAX_REQUESTS_PAGE)
        .default(DEFAULT_PAGE)
        .describe('Maximum number of elements on a page.'),
    }),
    response: pageOf('RequestPage', request),
    errors: ['missing_required_parameter', 'not_found'],
  },
  listRefusals: {
    route: 'GET /api/refusals',
    summary:
      'Count refused requests per account, key, error code and parameter. At most 500 counts, latest first.',
    access: 'member',
    query: refusalQuery.extend({
      by: z
        .literal('hour')
        .optional()
        .describe('Count each UTC hour separately. `last_at` is in the hour of its count.'),
    }),
    response: pageOf('RefusalPage', refusal),
    errors: ['missing_required_parameter', 'not_found'],
  },
  countRefusals: {
    route: 'GET /api/refusals/hours',
    summary: 'Count refused requests per UTC hour, oldest first. Hours without any are left out.',
    access: 'member',
    query: refusalQuery,
    response: pageOf(
      'RefusalHourPage',
      component(
        'RefusalHour',
        z.object({
          hour: time.describe('Start of the hour, in UTC.'),
          count: z.int().describe('Number of requests.'),
        }),
      ),
    ),
    errors: ['missing_required_parameter', 'not_found'],
  },
  getReceipt: {
    route: 'GET /api/receipts/{id}',
    summary: 'Get the receipt of a request. Any valid key of its account can be used.',
    access: 'account',
    response: receipt,
    errors: ['not_found'],
  },
  listReceipts: {
    route: 'GET /api/receipts',
    summary: 'Get the receipts of all requests with this client request ID, newest first, at most 200.',
    access: 'account',
    query: z.strictObject({
      client_request_id: z
        .string()
        .regex(/^[\x20-\x7e]{1,512}$/, 'expected 1 to 512 printable ASCII characters')
        .describe('ID that the caller sent in `x-client-request-id`.'),
      account_id: id.optional().describe('Default: the account of the key.'),
    }),
    response: pageOf('ReceiptPage', receipt),
    errors: ['missing_required_parameter', 'not_found'],
  },
});
