import { z } from 'zod';
import { modelId } from './plan.ts';

/** Maximum number of aliases. */
const MAX_ALIASES = 1000;

export const aliasesSchema = z
  .record(
    z
      .string()
      .regex(
        /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$/,
        'expected a name of at most 200 letters, digits, ".", "_", "-", ":" and "/"',
      ),
    modelId,
  )
  .default({})
  .refine((aliases) => Object.keys(aliases).length <= MAX_ALIASES, `expected at most ${MAX_ALIASES} aliases`)
  .describe(
    'Other names of models: `gpt-4o-mini: Qwen/Qwen3-4B` lets a program with a fixed model name use that model. Responses, limits, receipts and usage have the ID of the model. A key must be allowed to use the model.',
  );

export const routingSchema = z
  .strictObject({
    policy: z
      .enum(['cost', 'least-requests', 'round-robin'])
      .default('cost')
      .describe(
        'How the replica of a request is chosen. `cost`: the least estimated work before the first token, considering which replica has processed the start of the prompt. `least-requests`: the fewest requests in flight. `round-robin`: in turn.',
      ),
  })
  .prefault({})
  .describe('How requests are distributed over the replicas of a model.');

export const retrySchema = z
  .strictObject({
    share: z
      .number()
      .min(0)
      .max(1)
      .default(0.2)
      .describe('Maximum number of retries per minute, as a share of the requests in the last minute.'),
    minPerMinute: z
      .int()
      .min(0)
      .max(1_000_000)
      .default(10)
      .describe('Number of retries per minute that are always allowed.'),
  })
  .prefault({})
  .describe(
    'Requests that fail on a replica before any response was sent are retried on another one. These limits apply to each model.',
  );
