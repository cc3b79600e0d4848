import { z } from 'zod';

export const recoverySchema = z
  .strictObject({
    maxWaitMs: z
      .int()
      .min(0)
      .max(86_400_000)
      .default(15_000)
      .describe(
        'How long a response waits for another replica, or for its embedded engine to restart, in milliseconds; after that, it ends with the error.',
      ),
    maxAttempts: z
      .int()
      .min(0)
      .max(10)
      .default(2)
      .describe('How often one response may be continued. 0: a response ends with the error of its replica.'),
  })
  .prefault({})
  .describe(
    'Responses whose replica failed after part of them was sent. Another replica continues them where possible: see docs/recovery.md.',
  );
