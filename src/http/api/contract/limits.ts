import { z } from 'zod';
import { MAX_MODELS } from '../../../accounts/bounds.ts';
import { LIMIT_NAMES, limitFields, modelId } from '../../../config/plan.ts';
import { component } from './schemas.ts';

type SnakeCase<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeCase<Rest>}`
  : Name;

/** Returns the name of a limit in the management API: `requestsPerMinute` is `requests_per_minute`. */
export function apiName<Name extends string>(name: Name): SnakeCase<Name> {
  // TypeScript does not know the result of `replaceAll`.
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) as SnakeCase<Name>;
}

type Fields = typeof limitFields;

/** The limit fields of the configuration. */
// `Object.entries` loses the names.
const fields = Object.fromEntries(
  Object.entries(limitFields).map(([name, schema]) => [apiName(name), schema]),
) as { [Name in keyof Fields as SnakeCase<Name>]: Fields[Name] };

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

/** The same fields with values that can be null. */
function nullable<Shape extends z.ZodRawShape>(shape: Shape) {
  const entries = Object.entries(shape).map(([name, schema]) => [
    name,
    z.nullable(schema).meta(z.globalRegistry.get(schema) ?? {}),
  ]);
  // `Object.fromEntries` loses the names.
  return Object.fromEntries(entries) as { [Name in keyof Shape]: z.ZodNullable<Shape[Name]> };
}

const changeFields = nullable({
  ...fields,
  burst: z
    .strictObject(nullable(fields.burst.unwrap().shape))
    .optional()
    .describe(fields.burst.description ?? ''),
});

/** A change to limits. */
export const limitsChange = component(
  'LimitsChange',
  z.strictObject({
    ...changeFields,
    models: z
      .record(modelId, z.strictObject(changeFields).nullable())
      .nullable()
      .optional()
      .describe('Changes to the limits for individual models, by model ID; null removes those of a model.'),
  }),
);

/** The values that limits had when a change of them was entered. */
export const previousLimits = limitsChange
  .nullable()
  .optional()
  .describe(
    'Only with `limits`: refuses the change with `conflict` if one of these limits has another value now. Null for a limit that was not set. The error says which ones were changed.',
  );

const amount = z.union([z.int(), z.string()]).describe('Requests or tokens; USD as a decimal string.');

export const statusFields = {
  scope: z
    .enum(['account', 'key'])
    .describe('Whether the limit is set by the account or its plan, or by the key.'),
  model: z.string().nullable().describe('Null: all models together.'),
  limit: z.enum(LIMIT_NAMES.map(apiName)),
  bound: amount,
};

export const appliedLimit = component('AppliedLimit', z.object({ ...statusFields, left: amount }));
