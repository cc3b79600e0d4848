import { z } from 'zod';
import { limitFields, type PlanLimits } from '../../config/plan.ts';
import { ServiceError } from '../../core/errors.ts';
import { apiName, limits, type limitsChange } from './contract/limits.ts';
import { parse } from './parse.ts';

type LimitsJson = z.output<typeof limits>;
type LimitFieldsJson = Omit<LimitsJson, 'models'>;
type LimitFields = Omit<PlanLimits, 'models'>;

export function limitsJson({ models, ...all }: PlanLimits): LimitsJson {
  return { ...fieldsJson(all), ...(models && { models: mapValues(models, fieldsJson) }) };
}

export function limitsFromJson({ models, ...all }: LimitsJson): PlanLimits {
  return { ...fieldsFromJson(all), ...(models && { models: mapValues(models, fieldsFromJson) }) };
}

type LimitsChange = z.output<typeof limitsChange>;

/**
 * Returns limits after a change: omitted ones stay, and null removes one, those of a model, or all. Throws a
 * `ServiceError` `invalid_value` if they are for too many models, or `conflict` (param `limits`) if a limit of
 * `seen` has another value now.
 */
export function changedLimits(
  now: PlanLimits | null,
  change: LimitsChange | null,
  seen?: LimitsChange | null,
): PlanLimits | null {
  if (seen !== undefined) assertUnchanged(limitsJson(now ?? {}), seen);
  if (change === null) return null;
  const changed = merge(limitsJson(now ?? {}), change);
  return limitsFromJson(parse(z.object({ limits }), { limits: changed }).limits);
}

function assertUnchanged(now: Record<string, unknown>, seen: LimitsChange | null): void {
  const before: Record<string, unknown> = seen === null ? {} : { ...merge(now, seen) };
  const texts = Object.keys({ ...before, ...now }).flatMap((name) => {
    const [was, is] = [before[name], now[name]].map((value) =>
      value === undefined ? 'not set' : JSON.stringify(value).replaceAll('"', ''),
    );
    return was === is ? [] : [`\`${name}\` was ${was} and is now ${is}`];
  });
  if (texts.length === 0) return;
  throw new ServiceError(
    'conflict',
    `Changed in the meantime: ${texts.join(', ')}. Save again to replace it.`,
    {
      param: 'limits',
    },
  );
}

/** Applies a JSON merge patch (RFC 7396), and leaves out objects that have nothing. */
function merge(target: object, patch: object): object {
  const merged = new Map(Object.entries(target).filter(([, value]) => value !== undefined));
  for (const [name, value] of Object.entries(patch) as [string, unknown][]) {
    if (value === undefined) continue;
    const before: unknown = merged.get(name);
    const after = isObject(value) ? merge(isObject(before) ? before : {}, value) : value;
    if (after === null || (isObject(after) && Object.keys(after).length === 0)) merged.delete(name);
    else merged.set(name, after);
  }
  return Object.fromEntries(merged);
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

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
