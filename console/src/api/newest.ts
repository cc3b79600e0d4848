/** A page of a list whose elements are in the order of their ids, the last one first. */
interface Page<Row> {
  data: Row[];
  /** Elements of the pages that follow have ids before it; null: there are none. */
  next_cursor: string | null;
}

/** What has been read of such a list, page after page. */
export interface Pages<Row> {
  pages: Page<Row>[];
  pageParams: (string | null)[];
}

/** Rows of the first page beyond which a list begins anew, so that it does not grow for ever. */
const MOST = 5000;

/**
 * Pages with the first one as it is now. Down to its cursor it is right: what it lacks there does not pass the filters
 * any more. Where it does not join what was known, or knows more, the list begins anew with it.
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
    first.data.length > MOST
  ) {
    return { pages: [newest], pageParams: [null] };
  }
  const pages = known.pages.map((page, index) => ({
    ...page,
    data: [...(index === 0 ? newest.data : []), ...page.data.filter(({ id }) => id < end)],
  }));
  return { ...known, pages };
}
