import type { z } from 'zod';
import type { PlanLimits } from '../../config/plan.ts';
import type { limits } from './contract/limits.ts';

type LimitsJson = z.output<typeof limits>;
type LimitFieldsJson = Omit<LimitsJson, 'models'>;
type LimitFields = Omit<PlanLimits, 'models'>;

export function limitsJson({ models, ...all }: PlanLimits): LimitsJson {
  return { ...fieldsJson(all), ...(models && { models: mapValues(models, fieldsJson) }) };
}

export function limitsFromJson({ models, ...all }: LimitsJson): PlanLimits {
  return { ...fieldsFromJson(all), ...(models && { models: mapValues(models, fieldsFromJson) }) };
}

function fieldsJson(fields: LimitFields): LimitFieldsJson {
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

function fieldsFromJson(fields: LimitFieldsJson): LimitFields {
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
