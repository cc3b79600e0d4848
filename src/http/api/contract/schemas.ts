import { z } from 'zod';
import { DEFAULT_PAGE, MAX_PAGE } from '../../../accounts/bounds.ts';

/** Schemas that stand in the OpenAPI document under a name of their own. */
export const named = z.registry<{ id: string }>();

/** Gives a schema its name in the document. */
export function component<T extends z.ZodType>(id: string, schema: T): T {
  named.add(schema, { id });
  return schema;
}

/** An id in a query or a body; whether there is one of it is seen later. */
export const id = z.string().regex(/^[\w-]{1,64}$/, 'expected an id');

/** What something is to be equal to. PostgreSQL takes no text with a NUL in it. */
export const filterText = z
  .string()
  .max(300)
  .regex(/^\P{Cc}*$/u, 'expected text without control characters');

/** A moment as it is answered: ISO 8601 in UTC. */
export const time = z.string().meta({ format: 'date-time' }).describe('ISO 8601 in UTC.');

/** A moment as it is asked with. */
export const moment = z.iso
  .datetime({ offset: true, error: 'expected ISO 8601 with a time zone, such as 2026-11-21T16:11:48Z' })
  .describe('ISO 8601 with a time zone.');

/** An amount of money, exact. */
export const usd = z.string().describe('USD, a decimal string.');

/** Parameters of every list. */
export const pageQuery = {
  limit: z.coerce
    .number<number>()
    .int()
    .min(1)
    .max(MAX_PAGE)
    .optional()
    .describe(`Most elements of the page. Left out: ${DEFAULT_PAGE}.`),
  cursor: z
    .string()
    .max(200)
    .optional()
    .describe('`next_cursor` of the page before. Left out: the first page.'),
};

/** A page of these elements. */
export function pageOf<T extends z.ZodType>(id: string, element: T) {
  const nextCursor = z
    .string()
    .nullable()
    .describe('To be sent as `cursor` for the elements that follow; null: there are none yet.');
  return component(id, z.object({ data: z.array(element), next_cursor: nextCursor }));
}

/** The answer to everything that deletes. */
export const deleted = component('Deleted', z.object({ id: z.string(), deleted: z.literal(true) }));
