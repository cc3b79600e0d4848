import { sql, type SelectQueryBuilder } from 'kysely';
import type { Schema } from '../database/schema.ts';
import { ServiceError } from '../core/errors.ts';
import { DEFAULT_PAGE, MAX_PAGE, MAX_PAGE_BYTES, POSITION_CURSOR, UUID } from './bounds.ts';

/** Selects a page of a list. */
export interface PageQuery {
  /** Maximum items, 1 to `MAX_PAGE`. Default: `DEFAULT_PAGE`. */
  limit?: number | undefined;
  /** `nextCursor` of the previous page; omitted or null: the first page. */
  cursor?: string | null | undefined;
}

/** A page of a list. Items added while paging cause neither duplicates nor gaps. */
export interface Page<T> {
  items: T[];
  /** Cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/** Returns the size of a page. Throws a `ServiceError` `invalid_value` (param `limit`). */
export function pageLimit({ limit = DEFAULT_PAGE }: PageQuery): number {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_PAGE) {
    throw new ServiceError('invalid_value', `\`limit\` must be a whole number from 1 to ${MAX_PAGE}.`, {
      param: 'limit',
    });
  }
  return limit;
}

/** Returns a page from up to `limit` + 1 rows; the extra row shows that more follow. */
export function pageOf<T>(rows: readonly T[], limit: number, cursorOf: (last: T) => string): Page<T> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return { items, nextCursor: rows.length > limit && last !== undefined ? cursorOf(last) : null };
}

/** Shortens a page to `MAX_PAGE_BYTES`. `bytes` is the size of the large columns of a row. */
export function shortened<T extends { bytes: number }>(
  page: Page<T>,
  cursorOf: (last: T) => string,
): Page<T> {
  let bytes = 0;
  const end = page.items.findIndex((item, index) => (bytes += item.bytes) > MAX_PAGE_BYTES && index > 0);
  return end === -1 ? page : pageOf(page.items, end, cursorOf);
}

/** A position in a list sorted by creation time and ID. */
export interface ListPosition {
  /** Unix milliseconds. */
  created_at: number;
  id: string;
}

/** Tables that are listed by creation time and ID. */
type ListedTable = 'accounts' | 'invitations' | 'keys' | 'users';

/** Returns a page of rows, oldest first. Rejects with `invalid_value` (param `limit` or `cursor`). */
export async function readPage<Table extends ListedTable, Row extends ListPosition>(
  rows: SelectQueryBuilder<Schema, Table, Row>,
  page: PageQuery,
): Promise<Page<Row>> {
  const limit = pageLimit(page);
  const after = parsePosition(page);
  let query = rows
    .orderBy(sql`created_at`)
    .orderBy(sql`id`)
    .limit(limit + 1);
  if (after !== null) {
    query = query.where(sql<boolean>`(created_at, id) > (${after.created_at}, ${after.id})`);
  }
  return pageOf(await query.execute(), limit, formatCursor);
}

/**
 * Returns a page of rows whose IDs are UUIDv7, newest first. Such an ID is also the cursor. Rejects like `readPage`.
 */
export async function readNewest<Table extends 'alerts' | 'audit', Row extends { id: string }>(
  rows: SelectQueryBuilder<Schema, Table, Row>,
  page: PageQuery,
): Promise<Page<Row>> {
  const limit = pageLimit(page);
  const before = page.cursor ?? null;
  if (before !== null && !UUID.test(before)) throw invalidCursor();
  let query = rows.orderBy(sql`id`, 'desc').limit(limit + 1);
  if (before !== null) query = query.where(sql<boolean>`id < ${before}`);
  return pageOf(await query.execute(), limit, ({ id }) => id);
}

/**
 * Returns a page of rows with large columns, which ends after `MAX_PAGE_BYTES` of them. `sizes` selects their positions and
 * sizes; `read` returns the rows of the page, in the same order. Rejects like `readPage`.
 */
export async function readLargePage<Table extends ListedTable, Row>(
  sizes: SelectQueryBuilder<Schema, Table, ListPosition & { bytes: number }>,
  page: PageQuery,
  read: (ids: readonly string[]) => Promise<Row[]>,
): Promise<Page<Row>> {
  const { items, nextCursor } = shortened(await readPage(sizes, page), formatCursor);
  return { items: items.length === 0 ? [] : await read(items.map(({ id }) => id)), nextCursor };
}

/** Formats a position as an opaque cursor. */
export function formatCursor({ created_at: createdAt, id }: ListPosition): string {
  return `${createdAt}.${id}`;
}

/** Parses a cursor; null: the start. Throws a `ServiceError` `invalid_value` (param `cursor`). */
export function parsePosition({ cursor }: PageQuery): ListPosition | null {
  if (cursor === undefined || cursor === null) return null;
  const [, createdAt, id] = POSITION_CURSOR.exec(cursor) ?? [];
  if (createdAt === undefined || id === undefined) throw invalidCursor();
  return { created_at: Number(createdAt), id };
}

export function invalidCursor(): ServiceError {
  return new ServiceError('invalid_value', '`cursor` must be a `next_cursor` of this list.', {
    param: 'cursor',
  });
}

/** Yields every item of a list, page by page. */
export async function* everyItem<T>(read: (query: PageQuery) => Promise<Page<T>>): AsyncGenerator<T, void> {
  let cursor: string | null = null;
  do {
    const page: Page<T> = await read({ limit: MAX_PAGE, cursor });
    yield* page.items;
    cursor = page.nextCursor;
  } while (cursor !== null);
}
