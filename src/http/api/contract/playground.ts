import { z } from 'zod';
import { operations } from './operation.ts';
import { component, id, time } from './schemas.ts';

/** Keys of the console's playground. */
export const playgroundOperations = operations({
  createPlaygroundKey: {
    method: 'POST',
    path: '/api/playground-keys',
    summary: "Make a caller's key that lives for an hour, for trying models out on an account's limits.",
    access: 'member',
    status: 201,
    body: component('NewPlaygroundKey', z.strictObject({ account_id: id })),
    answer: component(
      'PlaygroundKey',
      z.object({ id: z.string(), key: z.string().describe('The key, `sk-sluice-…`.'), expires_at: time }),
    ),
    errors: ['not_found'],
  },
});
