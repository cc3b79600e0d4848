/** A page of a list sorted by descending id. */
interface Page<Row> {
  data: Row[];
  /** Elements of later pages have smaller ids; null: last page. */
  next_cursor: string | null;
}

export interface Pages<Row> {
  pages: Page<Row>[];
  pageParams: (string | null)[];
}

/** The list restarts when its first page has more rows than this, so that it cannot grow without limit. */
const MAX_ROWS = 5000;

/**
 * Merges a new first page into the loaded pages. It replaces all rows down to its cursor, so that rows that no longer
 * match the filters disappear. The list restarts with it if there is a gap between it and the loaded rows.
 */
export function withNewest<Row extends { id: string }>(known: Pages<Row>, newest: Page<Row>): Pages<Row> {
  const end = newest.next_cursor;
  const [first] = known.pages;
  const latest = first?.data[0]?.id;
  const oldest = known.pages.at(-1)?.next_cursor ?? '';
  if (
    end === null ||
    first === undefined ||
    latest === undefined ||
    latest < end ||
    end < oldest ||
    first.data.length > MAX_ROWS
  ) {
    return { pages: [newest], pageParams: [null] };
  }
  const pages = known.pages.map((page, index) => ({
    ...page,
    data: [...(index === 0 ? newest.data : []), ...page.data.filter(({ id }) => id < end)],
  }));
  return { ...known, pages };
}
