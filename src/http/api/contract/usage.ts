import { z } from 'zod';
import { MAX_HOURLY_DAYS, MAX_PAGE, USAGE_CURSOR } from '../../../accounts/bounds.ts';
import { USAGE_DIMENSIONS } from '../../../accounts/ledger/roll-ups.ts';
import { usageRow } from './ledger.ts';
import { statusFields } from './limits.ts';
import { operations } from './operation.ts';
import { clientFilter, component, filterText, id, pageCursor, pageOf, time, wholeNumber } from './schemas.ts';

export const limitStatus = component(
  'LimitStatus',
  z.object({
    ...statusFields,
    used: statusFields.bound,
    reserved: statusFields.bound.describe(
      'The part of `used` that running requests have reserved, most of which they give back; 0 for limits per minute.',
    ),
    resets_at: time
      .nullable()
      .describe('When the limit is fully available again; null for concurrent requests.'),
    last_minute: z
      .object({
        used: z.int().describe('Requests that started in the last 60 seconds, or their tokens.'),
        bound: z.int().describe('The limit per minute. The outer `bound` is the capacity of the bucket.'),
      })
      .nullable()
      .describe('Usage of a limit per minute over the last 60 seconds; null for other limits.'),
  }),
);

const DIMENSION = `(?:${USAGE_DIMENSIONS.join('|')})`;
/** A comma-separated list of dimensions; the lookahead rejects repeated ones. */
const BY = new RegExp(
  String.raw`^(?!(?:.*,)?([a-z]+),(?:.*,)?\1(?:,|$))(?:${DIMENSION}(?:,${DIMENSION})*)?$`,
);

const day = z.string().meta({ format: 'date' });

export const usageOperations = operations({
  readUsage: {
    route: 'GET /api/usage',
    summary: 'Get usage by hour, day, model, key, account, client, member or tag. Days are in UTC.',
    access: 'member',
    query: z.strictObject({
      by: z
        .string()
        .regex(BY, `expected a comma-separated list of ${USAGE_DIMENSIONS.join(', ')}, each at most once`)
        .optional()
        .describe(
          `Comma-separated list of ${USAGE_DIMENSIONS.join(', ')}. A page has at most 5,000 rows; with \`hour\`, it covers at most ${MAX_HOURLY_DAYS} days. Default: one total.`,
        ),
      from: day.optional().describe('First day. Default: the first of this month.'),
      to: day
        .optional()
        .describe(
          'Day after the last day. If it is not later than `from`, the result is empty. Default: tomorrow.',
        ),
      account_id: id.optional().describe('Default: all accounts, for operators only.'),
      key_id: id.optional(),
      model: filterText.optional(),
      client: clientFilter,
      top: wholeNumber(1, MAX_PAGE)
        .optional()
        .describe(
          'Get only this many groups, such as models or keys, those with the most tokens. Not with `hour`, `day` or `cursor`.',
        ),
      cursor: pageCursor(USAGE_CURSOR),
    }),
    response: pageOf('UsagePage', usageRow),
    errors: ['missing_required_parameter', 'not_found'],
  },
  readLimits: {
    route: 'GET /api/limits',
    summary: 'Get the limits of an account and their current usage, and optionally those of a key.',
    access: 'member',
    query: z.strictObject({
      account_id: id,
      key_id: id.optional().describe('A key of the account, to include its limits.'),
      model: filterText.optional().describe('A model, to include its limits.'),
    }),
    response: pageOf('LimitPage', limitStatus),
    errors: ['missing_required_parameter', 'not_found', 'conflict'],
  },
});
