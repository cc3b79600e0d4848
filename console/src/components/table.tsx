import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { useLayoutEffect, useRef, useState, type ReactNode } from 'react';
import { Button } from './button.tsx';
import { classNames } from './class-names.ts';

export interface Column<Row> {
  /** Unique among the columns. */
  name: string;
  heading: ReactNode;
  cell: (row: Row) => ReactNode;
  /** Aligns numbers to the right. */
  numeric?: boolean;
  /** Hidden below this window width; default: always shown. */
  from?: 'sm' | 'md' | 'lg' | 'xl';
  /** Takes the remaining width and truncates its content. */
  grow?: boolean;
}

interface TableProps<Row> {
  /** Accessible name. */
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
  /** Opens a row. The first cell needs a link or button that does the same for keyboard users. */
  onOpen?: (row: Row) => void;
  isOpen?: (row: Row) => boolean;
}

const SEEN_FROM = {
  sm: 'hidden sm:table-cell',
  md: 'hidden md:table-cell',
  lg: 'hidden lg:table-cell',
  xl: 'hidden xl:table-cell',
};

/** Returns the padding of a column's cells. The last visible column of narrow windows also needs padding at the edge. */
function edges<Row>(column: Column<Row>, columns: readonly Column<Row>[]): string {
  const lastOnNarrow = columns.findLast(({ from }) => from === undefined) === column;
  return classNames(
    'px-2 first:pl-4 last:pr-4 sm:px-3 sm:first:pl-5 sm:last:pr-5',
    lastOnNarrow && 'max-sm:pr-4',
    column.from && SEEN_FROM[column.from],
  );
}

/** Longer tables render only the visible rows. */
const MANY = 100;
/** In CSS pixels, with the border. */
const ROW_HEIGHT = 53;

/** A table. Virtualizes long lists. */
export function Table<Row>(props: TableProps<Row>) {
  const { label, columns, rows } = props;
  return (
    <div className="overflow-x-auto">
      <table className="w-full border-collapse text-sm" aria-label={label} aria-rowcount={rows.length + 1}>
        <thead>
          <tr className="border-b border-line">
            {columns.map((column) => (
              <th
                key={column.name}
                scope="col"
                className={classNames(
                  'h-9 text-xs font-medium whitespace-nowrap text-ink-3',
                  edges(column, columns),
                  column.numeric ? 'text-right' : 'text-left',
                  column.grow && 'w-full',
                )}
              >
                {column.heading}
              </th>
            ))}
          </tr>
        </thead>
        {rows.length > MANY ? (
          <ManyRows {...props} />
        ) : (
          <tbody>
            {rows.map((row) => (
              <Line key={props.keyOf(row)} row={row} {...props} />
            ))}
          </tbody>
        )}
      </table>
    </div>
  );
}

function ManyRows<Row>(props: TableProps<Row>) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    if (body.current) setTop(body.current.getBoundingClientRect().top + window.scrollY);
  }, []);
  const virtual = useWindowVirtualizer({
    count: props.rows.length,
    estimateSize: () => ROW_HEIGHT,
    overscan: 12,
    scrollMargin: top,
  });
  const seen = virtual.getVirtualItems();
  const before = (seen[0]?.start ?? top) - top;
  const after = virtual.getTotalSize() - ((seen.at(-1)?.end ?? top) - top);
  return (
    <tbody ref={body}>
      <Gap height={before} />
      {seen.map(({ index }) => {
        const row = props.rows[index];
        return row === undefined ? null : <Line key={props.keyOf(row)} index={index} row={row} {...props} />;
      })}
      <Gap height={after} />
    </tbody>
  );
}

function Gap({ height }: { height: number }) {
  return height > 0 ? (
    <tr aria-hidden="true">
      <td style={{ height, padding: 0 }} />
    </tr>
  ) : null;
}

function Line<Row>({ row, index, columns, onOpen, isOpen }: TableProps<Row> & { row: Row; index?: number }) {
  return (
    <tr
      aria-rowindex={index === undefined ? undefined : index + 2}
      onClick={
        onOpen &&
        ((event) => {
          // Clicks on links, buttons and menus, and text selection, must not open the row.
          const target = event.target as Element;
          if (
            target.closest('a, button, [role="menu"], [role="dialog"]') === null &&
            getSelection()?.isCollapsed !== false
          )
            onOpen(row);
        })
      }
      className={classNames(
        'h-13 border-b border-line last:border-0',
        onOpen && 'cursor-pointer transition-colors hover:bg-hover',
        isOpen?.(row) && 'bg-accent-soft',
      )}
    >
      {columns.map((column) => (
        <td
          key={column.name}
          className={classNames(
            'py-1.5',
            edges(column, columns),
            column.numeric && 'text-right whitespace-nowrap tabular-nums',
            column.grow && 'max-w-0',
          )}
        >
          {column.cell(row)}
        </td>
      ))}
    </tr>
  );
}

/** The footer of a list: row count, and a button that loads the next page. */
export function ListFooter({
  shown,
  what,
  hasMore,
  busy,
  onMore,
}: {
  shown: number;
  what: string;
  hasMore: boolean;
  busy: boolean;
  onMore: () => void;
}) {
  return (
    <footer className="flex min-h-13 items-center justify-between gap-3 border-t border-line px-4 text-xs text-ink-3 sm:px-5">
      <span className="tabular-nums">
        {shown} {what}
        {hasMore ? ' loaded' : ''}
      </span>
      {hasMore && (
        <Button size="small" busy={busy} onClick={onMore}>
          Load more
        </Button>
      )}
    </footer>
  );
}
