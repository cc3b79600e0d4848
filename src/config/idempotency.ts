import { z } from 'zod';

/** Requests with an `Idempotency-Key` header. */
export const idempotencySchema = z
  .strictObject({
    keepMs: z
      .int()
      .min(0)
      .max(86_400_000)
      .default(600_000)
      .describe(
        'How long the response to a request with an `Idempotency-Key` is kept after its end, so that a repeated request gets it again, in milliseconds.',
      ),
    maxBytes: z
      .int()
      .min(65_536)
      .default(67_108_864)
      .describe(
        'Maximum memory for these responses, in bytes. Those that ended first are discarded first. A running response that does not fit is sent only to the clients that already receive it.',
      ),
    graceMs: z
      .int()
      .min(0)
      .max(86_400_000)
      .default(30_000)
      .describe(
        'How long a generation with an `Idempotency-Key` continues after its client has disconnected, so that a repeated request can get the rest, in milliseconds.',
      ),
  })
  .prefault({})
  .describe('Requests with an `Idempotency-Key` header.');
