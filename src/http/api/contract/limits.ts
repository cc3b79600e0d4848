import { z } from 'zod';
import { MAX_MODELS } from '../../../accounts/bounds.ts';
import { limitsSchema, modelId, type PlanLimits } from '../../../config/plan.ts';
import { component } from './schemas.ts';

const { shape } = limitsSchema;

/** The limit fields of the configuration, in snake case. */
const fields = {
  requests_per_minute: shape.requestsPerMinute,
  tokens_per_minute: shape.tokensPerMinute,
  requests_in_flight: shape.requestsInFlight,
  tokens_per_day: shape.tokensPerDay,
  tokens_per_month: shape.tokensPerMonth,
  usd_per_month: shape.usdPerMonth,
  burst: shape.burst,
};

/** Limits of a plan or a key. */
export const limits = component(
  'Limits',
  z.strictObject({
    ...fields,
    models: z
      .record(modelId, z.strictObject(fields))
      .refine((models) => Object.keys(models).length <= MAX_MODELS, `at most ${MAX_MODELS} models`)
      .meta({ maxProperties: MAX_MODELS })
      .optional()
      .describe('Additional limits for individual models, by model ID.'),
  }),
);

/** The names of limits in the management API. */
export const LIMIT_NAMES = {
  requestsPerMinute: 'requests_per_minute',
  tokensPerMinute: 'tokens_per_minute',
  requestsInFlight: 'requests_in_flight',
  tokensPerDay: 'tokens_per_day',
  tokensPerMonth: 'tokens_per_month',
  usdPerMonth: 'usd_per_month',
} as const satisfies Record<Exclude<keyof PlanLimits, 'burst' | 'models'>, keyof typeof fields>;

const amount = z
  .union([z.int(), z.string()])
  .describe('Requests or tokens; USD as a decimal string for `usd_per_month`.');

export const limitFields = {
  scope: z.enum(['account', 'key']).describe("Whether the limit is set by the account's plan or by the key."),
  model: z.string().nullable().describe('Null: all models together.'),
  limit: z.enum(Object.values(LIMIT_NAMES)),
  bound: amount,
};

/** A limit that applied to a request. */
export const appliedLimit = component('AppliedLimit', z.object({ ...limitFields, left: amount }));
