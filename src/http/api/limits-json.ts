import { z } from 'zod';
import type { LimitName } from '../../accounts/limits/limits.ts';
import { modelId, planSchema, type PlanLimits } from '../../config/plan.ts';
import { component } from './schemas.ts';

const { shape } = planSchema;

/** Limits of the configuration under the names that they have here. */
const limitFields = {
  requests_per_minute: shape.requestsPerMinute,
  tokens_per_minute: shape.tokensPerMinute,
  requests_in_flight: shape.requestsInFlight,
  tokens_per_day: shape.tokensPerDay,
  tokens_per_month: shape.tokensPerMonth,
  usd_per_month: shape.usdPerMonth,
  burst: shape.burst,
};

/** Limits of a plan or of a key, for all models together and for single ones. */
export const limits = component(
  'Limits',
  z.strictObject({
    ...limitFields,
    models: z
      .record(modelId, z.strictObject(limitFields))
      .optional()
      .describe('Further limits for single models, by model id.'),
  }),
);

type LimitsJson = z.output<typeof limits>;
type FieldsJson = Omit<LimitsJson, 'models'>;
type Fields = Omit<PlanLimits, 'models'>;

/** What each limit is called here. */
export const LIMIT_WORDS = {
  requestsPerMinute: 'requests_per_minute',
  tokensPerMinute: 'tokens_per_minute',
  requestsInFlight: 'requests_in_flight',
  tokensPerDay: 'tokens_per_day',
  tokensPerMonth: 'tokens_per_month',
  usdPerMonth: 'usd_per_month',
} as const satisfies Record<LimitName, keyof FieldsJson>;

/** Limits as they are answered; null stays null. */
export function limitsJson({ models, ...all }: PlanLimits): LimitsJson {
  return { ...fieldsJson(all), ...(models && { models: mapValues(models, fieldsJson) }) };
}

/** Limits as the rest of the program knows them. */
export function limitsOf({ models, ...all }: LimitsJson): PlanLimits {
  return { ...fieldsOf(all), ...(models && { models: mapValues(models, fieldsOf) }) };
}

function fieldsJson(fields: Fields): FieldsJson {
  return {
    requests_per_minute: fields.requestsPerMinute,
    tokens_per_minute: fields.tokensPerMinute,
    requests_in_flight: fields.requestsInFlight,
    tokens_per_day: fields.tokensPerDay,
    tokens_per_month: fields.tokensPerMonth,
    usd_per_month: fields.usdPerMonth,
    burst: fields.burst,
  };
}

function fieldsOf(fields: FieldsJson): Fields {
  return {
    requestsPerMinute: fields.requests_per_minute,
    tokensPerMinute: fields.tokens_per_minute,
    requestsInFlight: fields.requests_in_flight,
    tokensPerDay: fields.tokens_per_day,
    tokensPerMonth: fields.tokens_per_month,
    usdPerMonth: fields.usd_per_month,
    burst: fields.burst,
  };
}

function mapValues<T, U>(values: Readonly<Record<string, T>>, map: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value)]));
}
