import { z } from 'zod';

export const httpUrl = z.url({ protocol: /^https?$/, error: 'expected an http:// or https:// URL' });

/** The name of an environment variable with a secret. The file itself contains no secrets. */
export const variableName = z
  .string('expected the name of an environment variable')
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'expected the name of an environment variable');

/** A header value: 1 to 4096 printable ASCII characters, without spaces at either end. */
export const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]{0,4094}[\x21-\x7e])?$/;

/** For `superRefine`: reports every element whose ID is already used by an earlier one. */
export function uniqueIds(message: string) {
  return (list: readonly { id: string }[], context: z.RefinementCtx): void => {
    const ids = list.map(({ id }) => id);
    for (const [index, id] of ids.entries()) {
      if (ids.indexOf(id) !== index) context.addIssue({ code: 'custom', message, path: [index, 'id'] });
    }
  };
}

/** A duration of at most a day; `fallback` is the default. */
export const milliseconds = (fallback: number, min = 0, max = 86_400_000) =>
  z.int().min(min).max(max).default(fallback);
