import { z } from 'zod';

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
