import { z } from 'zod';

export const httpUrl = z.url({ protocol: /^https?$/, error: 'expected an http:// or https:// URL' });

/** The name of an environment variable with a secret. The file itself contains no secrets. */
export const variableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected the name of an environment variable');

/** For `superRefine`: reports every element whose ID is already used by an earlier one. */
export function uniqueIds(message: string) {
  return (list: readonly { id: string }[], context: z.RefinementCtx): void => {
    const ids = list.map(({ id }) => id);
    for (const [index, id] of ids.entries()) {
      if (ids.indexOf(id) !== index) context.addIssue({ code: 'custom', message, path: [index, 'id'] });
    }
  };
}
