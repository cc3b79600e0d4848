import { z } from 'zod';

/** The format of model IDs. */
export const modelId = z
  .string()
  .max(200)
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]*\/[A-Za-z0-9][A-Za-z0-9._:-]*$/,
    'expected <namespace>/<model_name>, of letters, digits, ".", "_", "-" and ":"',
  );

/** Per minute. Token buckets count fractions, which are exact up to this maximum. */
const rate = z.int().min(1).max(100_000_000_000);
const count = z.int().min(1).max(1_000_000_000_000);

const usd = z
  .string()
  .regex(/^\d{1,6}(\.\d{1,6})?$/, 'expected a decimal string with at most 6 decimals, such as "25.00"');

/** The limits. `accounts/limits/kinds.ts` says what each counts. */
const limits = {
  requestsPerMinute: rate.optional().describe('Requests per minute (token bucket).'),
  tokensPerMinute: rate.optional().describe('Prompt and completion tokens per minute (token bucket).'),
  requestsInFlight: z.int().min(1).max(1_000_000).optional().describe('Concurrent requests.'),
  tokensPerDay: count.optional().describe('Prompt and completion tokens per UTC day.'),
  tokensPerMonth: count.optional().describe('Prompt and completion tokens per UTC calendar month.'),
  usdPerMonth: usd
    .optional()
    .describe('USD per UTC calendar month, a decimal string with at most 6 decimals.'),
};

/** The limits of a plan or a key, for all models or one. */
export const limitFields = {
  ...limits,
  burst: z
    .strictObject({
      requests: rate.optional().describe('Bucket size in requests. Default: the per-minute limit.'),
      tokens: rate.optional().describe('Bucket size in tokens. Default: the per-minute limit.'),
    })
    .optional()
    .describe('Bucket sizes: how much can be used in one burst.'),
};

/** Limits of a plan or a key: for all models together, and for individual models. */
export const limitsSchema = z.strictObject({
  ...limitFields,
  models: z
    .record(modelId, z.strictObject(limitFields))
    .optional()
    .describe('Additional limits for individual models, by model ID, with the same fields.'),
});

export type PlanLimits = z.output<typeof limitsSchema>;

/** The name of a limit in the configuration. */
export type LimitName = keyof typeof limits;

// `Object.keys` returns strings.
export const LIMIT_NAMES = Object.keys(limits) as LimitName[];

export const planSchema = limitsSchema.extend({
  weight: z
    .number()
    .min(0.01)
    .max(100)
    .optional()
    .describe(
      "An account's share of a model when requests of several accounts wait for it. An account with weight 2 gets twice as many tokens as one with weight 1. Default: 1.",
    ),
});

/**
 * The plans if the configuration has none. The default plan, `standard`, is generous, for use on a personal machine.
 */
export const DEFAULT_PLANS = {
  free: {
    requestsPerMinute: 20,
    tokensPerMinute: 20_000,
    requestsInFlight: 4,
    tokensPerDay: 500_000,
    usdPerMonth: '5',
  },
  standard: { requestsPerMinute: 6000, tokensPerMinute: 100_000_000, requestsInFlight: 1000 },
  unlimited: {},
};
