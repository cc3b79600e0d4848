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
        'How long a response is kept after its end, in milliseconds. A repeated request with the same `Idempotency-Key` gets it again.',
      ),
    maxBytes: z
      .int()
      .min(65_536)
      .default(67_108_864)
      .describe(
        'Maximum memory for these responses, in bytes; one account may use a quarter of it, or 64 KiB if that is more. The responses that ended first are discarded first. A running response that does not fit is sent only to the clients that already receive it.',
      ),
    graceMs: z
      .int()
      .min(0)
      .max(86_400_000)
      .default(30_000)
      .describe(
        'How long a generation continues after its last client has disconnected, in milliseconds. A repeated request with the same `Idempotency-Key` can get the rest.',
      ),
  })
  .prefault({})
  .describe('Requests with an `Idempotency-Key` header.');
