import { z } from 'zod';
import {
  DEFAULT_PAGE,
  EMAIL,
  hasLength,
  ID,
  MAX_EMAIL,
  MAX_NAME,
  MAX_PAGE,
  NAME,
  POSITION_CURSOR,
  UUID,
} from '../../../accounts/bounds.ts';
import { RECOMMENDED_LIST, type RecommendedSamplingJson } from '../../../core/sampling.ts';

/** Schemas that are components of the OpenAPI document, with their names. */
export const namedSchemas = z.registry<{ id: string }>();

/** Names a schema in the OpenAPI document. */
export function component<T extends z.ZodType>(id: string, schema: T): T {
  namedSchemas.add(schema, { id });
  return schema;
}

/** A string in the format of an ID. Does not check that the object exists. */
export const id = z.string().regex(ID, 'expected an ID');

export function characters(min: number, max: number) {
  return z
    .string()
    .refine((text) => hasLength(text, min, max), `expected ${min} to ${max} characters`)
    .meta({ minLength: min, maxLength: max });
}

/** Text of at most `max` characters without control characters. PostgreSQL does not accept NUL. */
export function line(max: number) {
  return characters(0, max)
    .regex(LINE, 'expected text without control characters')
    .meta({ minLength: 0, maxLength: max });
}

const LINE = new RegExp(String.raw`^[^\u0000-\u001f\u007f-\u009f]*$`, 'u');

/** The value of a filter. */
export const filterText = line(300);

export const clientFilter = filterText
  .optional()
  .describe('Empty: requests whose client is null, because an earlier version recorded them.');

/** The name of an account, a key or a user; `checkedName` enforces the same bounds. */
export const name = z
  .string()
  .meta({ minLength: 1, maxLength: MAX_NAME, pattern: NAME.source })
  .describe(`1 to ${MAX_NAME} characters, without control characters.`);

/** The email address of a new user; `checkedEmail` enforces the same bounds. */
export const newEmail = z.string().meta({ minLength: 3, maxLength: MAX_EMAIL, pattern: EMAIL.source });

/** A time in a response. */
export const time = z.string().meta({ format: 'date-time' }).describe('ISO 8601 in UTC.');

/** A time in a request, in any time zone. */
export const moment = z.iso
  .datetime({ offset: true, error: 'expected ISO 8601 with a time zone, such as 2026-11-21T16:11:48Z' })
  .describe('ISO 8601 with a time zone.');

export const usd = z.string().describe('USD, a decimal string.');

/** A whole number in a query. */
export function wholeNumber(min: number, max: number) {
  return z.coerce.number<number>().int().min(min).max(max);
}

function pageQueryOf(cursor: RegExp) {
  return {
    limit: wholeNumber(1, MAX_PAGE)
      .optional()
      .describe(`Maximum number of elements on a page. Default: ${DEFAULT_PAGE}.`),
    cursor: pageCursor(cursor),
  };
}

/** The parameter `cursor` of a list whose cursors match `pattern`. */
export function pageCursor(pattern: RegExp) {
  return z
    .string()
    .regex(pattern, 'expected a `next_cursor` of this list')
    .optional()
    .describe('`next_cursor` of the previous page. Default: the first page.');
}

/** Sampling parameters that the publisher of a model recommends. */
export const recommendedSampling = z.object(
  Object.fromEntries(
    RECOMMENDED_LIST.map(([, { name, schema }]) => [
      name,
      (schema.type === 'integer' ? z.int().min(schema.minimum ?? 0) : z.number()).optional(),
    ]),
  ) as { [Name in keyof RecommendedSamplingJson]-?: z.ZodOptional<z.ZodNumber> },
);

/** Parameters of lists that start with the oldest element. */
export const pageQuery = pageQueryOf(POSITION_CURSOR);

/** Parameters of lists that start with the newest element. */
export const newestPageQuery = pageQueryOf(UUID);

export function pageOf<T extends z.ZodType>(id: string, element: T) {
  const nextCursor = z
    .string()
    .nullable()
    .describe('Send it as `cursor` to get the next page; null: this is the last page.');
  return component(id, z.object({ data: z.array(element), next_cursor: nextCursor }));
}

/** The parameters of a time range, for lists that are ordered by time. `what`: such as "entries". */
export function timeQuery(what: string) {
  return {
    from: moment.optional().describe(`Only ${what} at or after this time; ISO 8601 with a time zone.`),
    to: moment.optional().describe(`Only ${what} before this time; ISO 8601 with a time zone.`),
  };
}

/** The response of operations that delete. */
export const deleted = component('Deleted', z.object({ id: z.string(), deleted: z.literal(true) }));

export const prefillProgress = z
  .object({
    prompt_tokens: z.int(),
    done_tokens: z.int().describe('Computed, or cached.'),
    left_ms: z
      .int()
      .nullable()
      .describe('Time until all are computed, at the speed so far, in milliseconds; null: unknown.'),
  })
  .nullable();

/** Names of the key and the account of a row. */
export const ownerNames = {
  key_name: z.string().nullable().describe('Null: no key, or it no longer exists.'),
  account_name: z.string().nullable(),
};
