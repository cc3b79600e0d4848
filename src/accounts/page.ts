import { sql, type SelectQueryBuilder } from 'kysely';
import type { Schema } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';
import { DEFAULT_PAGE, MAX_PAGE, PLACE_CURSOR } from './bounds.ts';

/** Which part of a list is wanted. */
export interface PageQuery {
  /** Most items, 1 to `MAX_PAGE`; `DEFAULT_PAGE` unless said otherwise. */
  limit?: number | undefined;
  /** `nextCursor` of the page before; left out or null: the first page. */
  cursor?: string | null | undefined;
}

/** Part of a list, in the list's order. What is added while somebody pages neither doubles an item nor hides one. */
export interface Page<T> {
  items: T[];
  /** To be sent back for the items that follow; null: there are none yet. */
  nextCursor: string | null;
}

/** How many items a page has. Throws a `ServiceError` `invalid_value` (param `limit`). */
export function pageLimit({ limit = DEFAULT_PAGE }: PageQuery): number {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_PAGE) {
    throw new ServiceError('invalid_value', `\`limit\` must be a whole number from 1 to ${MAX_PAGE}.`, {
      param: 'limit',
    });
  }
  return limit;
}

/** The page that one item more than `limit` rows make, if there are so many: the one more tells that others follow. */
export function pageOf<T>(rows: readonly T[], limit: number, cursorOf: (last: T) => string): Page<T> {
  const items = rows.slice(0, limit);
  const last = items.at(-1);
  return { items, nextCursor: rows.length > limit && last !== undefined ? cursorOf(last) : null };
}

/** A place in a list that is ordered by when its items were made, then by id. */
export interface Place {
  /** Unix milliseconds. */
  createdAt: number;
  id: string;
}

/** The lists that are ordered by when their rows were made, then by id. */
type Listed = 'accounts' | 'invitations' | 'keys' | 'people';

/**
 * A page of such a list, the oldest first, of rows that may have been narrowed already. Throws a `ServiceError`
 * `invalid_value` (param `limit` or `cursor`).
 */
export async function oldestFirst<Table extends Listed, Row, Item extends Place>(
  rows: SelectQueryBuilder<Schema, Table, Row>,
  toItem: (row: Row) => Item,
  page: PageQuery,
): Promise<Page<Item>> {
  const limit = pageLimit(page);
  const after = placeOf(page);
  let query = rows
    .orderBy(sql`created_at`)
    .orderBy(sql`id`)
    .limit(limit + 1);
  if (after !== null) {
    query = query.where(sql<boolean>`(created_at, id) > (${after.createdAt}, ${after.id})`);
  }
  return pageOf((await query.execute()).map(toItem), limit, placeCursor);
}

/** Text that names a place; callers send it back and read nothing in it. */
export function placeCursor({ createdAt, id }: Place): string {
  return `${createdAt}.${id}`;
}

/** The place a cursor names; null: the beginning. Throws a `ServiceError` `invalid_value` (param `cursor`). */
export function placeOf({ cursor }: PageQuery): Place | null {
  if (cursor === undefined || cursor === null) return null;
  const [, createdAt, id] = PLACE_CURSOR.exec(cursor) ?? [];
  if (createdAt === undefined || id === undefined) throw invalidCursor();
  return { createdAt: Number(createdAt), id };
}

/** The fault of a cursor that no page has given out. */
export function invalidCursor(): ServiceError {
  return new ServiceError('invalid_value', '`cursor` must be a `next_cursor` of this list.', {
    param: 'cursor',
  });
}

/** Every item of a list, page after page. */
export async function* everyItem<T>(read: (query: PageQuery) => Promise<Page<T>>): AsyncGenerator<T, void> {
  let cursor: string | null = null;
  do {
    const page: Page<T> = await read({ limit: MAX_PAGE, cursor });
    yield* page.items;
    cursor = page.nextCursor;
  } while (cursor !== null);
}
