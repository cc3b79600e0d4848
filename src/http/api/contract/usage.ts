import { z } from 'zod';
import { DAY_CURSOR, MOST_DAYS_OF_HOURS } from '../../../accounts/bounds.ts';
import { USAGE_DIMENSIONS } from '../../../accounts/ledger/dimensions.ts';
import { usageRow } from './ledger.ts';
import { limitFields } from './limits.ts';
import { operations } from './operation.ts';
import { component, filterText, id, pageCursor, pageOf, time } from './schemas.ts';

/** A limit as it stands. */
export const standing = component(
  'LimitStanding',
  z.object({
    ...limitFields,
    used: limitFields.bound,
    resets_at: time.nullable().describe('When it is whole again; null for requests in flight.'),
  }),
);

/** Some of the dimensions, each once: the lookahead refuses a repeated one. */
const DIMENSION = `(?:${USAGE_DIMENSIONS.join('|')})`;
const BY = new RegExp(
  String.raw`^(?!(?:.*,)?([a-z]+),(?:.*,)?\1(?:,|$))(?:${DIMENSION}(?:,${DIMENSION})*)?$`,
);

const day = z.string().meta({ format: 'date' });

/** What was used, and what is left. */
export const usageOperations = operations({
  readUsage: {
    method: 'GET',
    path: '/api/usage',
    summary: 'Sum up what was used, by hour, day, model, key or account. A day is one in UTC.',
    access: 'member',
    query: z.strictObject({
      by: z
        .string()
        .regex(BY, `expected some of ${USAGE_DIMENSIONS.join(', ')}, each once, with commas between`)
        .optional()
        .describe(
          `Any of ${USAGE_DIMENSIONS.join(', ')}, with commas between. With \`hour\` a page has ${MOST_DAYS_OF_HOURS} days. Left out: one sum of all.`,
        ),
      from: day.optional().describe('The first day. Left out: the first of this month.'),
      to: day
        .optional()
        .describe(
          'The day after the last one. No later than `from`: nothing is summed up. Left out: tomorrow.',
        ),
      account_id: id.optional().describe('Left out: all accounts, for operators alone.'),
      key_id: id.optional(),
      model: filterText.optional(),
      cursor: pageCursor(DAY_CURSOR),
    }),
    answer: pageOf('UsagePage', usageRow),
    errors: ['missing_required_parameter', 'not_found'],
  },
  readLimits: {
    method: 'GET',
    path: '/api/limits',
    summary: "Tell how an account's limits stand now, and with a key its own.",
    access: 'member',
    query: z.strictObject({
      account_id: id,
      key_id: id.optional().describe('A key of the account.'),
      model: filterText.optional().describe('Tell the limits of this model too.'),
    }),
    answer: pageOf('LimitPage', standing),
    errors: ['missing_required_parameter', 'not_found'],
  },
});
