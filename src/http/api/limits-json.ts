import type { z } from 'zod';
import { limitFields, type PlanLimits } from '../../config/plan.ts';
import { apiName, type limits } from './contract/limits.ts';

type LimitsJson = z.output<typeof limits>;
type LimitFieldsJson = Omit<LimitsJson, 'models'>;
type LimitFields = Omit<PlanLimits, 'models'>;

export function limitsJson({ models, ...all }: PlanLimits): LimitsJson {
  return { ...fieldsJson(all), ...(models && { models: mapValues(models, fieldsJson) }) };
}

export function limitsFromJson({ models, ...all }: LimitsJson): PlanLimits {
  return { ...fieldsFromJson(all), ...(models && { models: mapValues(models, fieldsFromJson) }) };
}

/** The names of the fields in the configuration and in the API. */
// `Object.keys` returns strings.
const NAMES = (Object.keys(limitFields) as (keyof LimitFields)[]).map(
  (name) => [name, apiName(name)] as const,
);

function fieldsJson(fields: LimitFields): LimitFieldsJson {
  return Object.fromEntries(NAMES.map(([name, named]) => [named, fields[name]]));
}

function fieldsFromJson(fields: LimitFieldsJson): LimitFields {
  return Object.fromEntries(NAMES.map(([name, named]) => [name, fields[named]]));
}

function mapValues<T, U>(values: Readonly<Record<string, T>>, map: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, map(value)]));
}
