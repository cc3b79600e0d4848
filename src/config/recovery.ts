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
      .describe(
        'Maximum number of times that one response is continued. 0: a response ends with the error of its replica.',
      ),
  })
  .prefault({})
  .describe('How responses are continued on another replica if their replica fails: see docs/recovery.md.');
