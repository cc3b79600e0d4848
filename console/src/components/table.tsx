import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { ArrowDown, ArrowUp, Download, Settings2 } from 'lucide-react';
import {
  useLayoutEffect,
  useRef,
  useState,
  useSyncExternalStore,
  type ReactNode,
  type RefObject,
} from 'react';
import { useMore, type ListRest } from '../api/queries.ts';
import { whole } from '../format/number.ts';
import { notify } from '../notify.ts';
import { useColumnChoice, type ColumnChoice } from '../state/column-choice.ts';
import { useQueryState } from '../state/url-query.ts';
import { Button, IconButton } from './button.tsx';
import { classNames } from './class-names.ts';
import { CodeText } from './code-text.tsx';
import { csv, type Cell } from './csv.ts';
import { Menu, MenuChecks, MenuItem, MenuSeparator } from './menu.tsx';
import { saveFile } from './save-file.ts';
import { compareValues, nextOrder, orderOf, type Order } from './table-order.ts';
import { Time } from './time.tsx';

export interface Column<Row> {
  /** Unique among the columns. */
  name: string;
  heading: string;
  /** Has buttons or checkboxes instead of values. Only screen readers get the heading, and it is not in the menu. */
  isControl?: boolean;
  cell: (row: Row) => ReactNode;
  /** The value for sorting and in CSV files. Times are ISO 8601, money has all digits. */
  value?: (row: Row) => Cell;
  numeric?: boolean;
  /** Hidden below this window width, or until the user chooses it; default: always shown. */
  from?: Width | 'chosen';
  /** Takes the remaining width and truncates its content. */
  grow?: boolean;
}

type Naming<Row> = Pick<Column<Row>, 'name' | 'heading' | 'from'>;

const NONE = <span className="text-ink-3">—</span>;

/** A column of texts; null or empty: unknown, or none. */
export function textColumn<Row>(column: Naming<Row>, value: (row: Row) => string | null): Column<Row> {
  return { ...column, value, cell: (row) => value(row) || NONE };
}

/** A column of numbers; null: unknown. */
export function numberColumn<Row>(
  column: Naming<Row>,
  value: (row: Row) => number | null,
  write: (value: number) => ReactNode = whole,
): Column<Row> {
  const cell = (row: Row) => {
    const known = value(row);
    return known === null ? NONE : write(known);
  };
  return { ...column, numeric: true, value, cell };
}

/** A column of times relative to now, in ISO 8601; null: never. */
export function timeColumn<Row>(column: Naming<Row>, value: (row: Row) => string | null): Column<Row> {
  return { ...column, value, cell: (row) => <Time at={value(row)} relative /> };
}

/** Returns the rest of a list whose items become rows: only the matching ones, or others. */
export function changedRest<Item, Row>(
  rest: Rest<Item>,
  rowsOf: (items: readonly Item[]) => readonly Row[],
): Rest<Row> {
  return { ...rest, loadUpTo: async (count, signal) => rowsOf(await rest.loadUpTo(count, signal)) };
}

export interface Rest<Row> extends ListRest {
  /** Loads pages until there are `count` rows or no more. Resolves to all that are loaded. */
  loadUpTo: (count: number, signal: AbortSignal) => Promise<readonly Row[]>;
}

interface TableProps<Row> {
  /** Accessible name. */
  label: string;
  /** Adds a menu to wide windows, to choose columns, which are kept under this name, and to download a CSV file. */
  id?: string;
  /** Whether columns with a `value` can sort the rows. The URL has the order. */
  sortable?: boolean;
  /** Rows that are not loaded yet. Before the rows are sorted, all are loaded; before they are downloaded, `MAX_CSV_ROWS`. */
  rest?: Rest<Row> | undefined;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  /** The rows of the CSV file, if they are not `rows`. */
  csvRows?: readonly Row[] | undefined;
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
  chosen: 'hidden',
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

/** Maximum number of rows of a CSV file. */
const MAX_CSV_ROWS = 10_000;

/** Below the top bar of narrow windows. */
const STICKY = 'sticky top-14 z-10 bg-surface lg:top-0';

/** A table with a header that stays visible. Virtualizes long lists. */
export function Table<Row>(given: TableProps<Row>) {
  const { label, id, sortable = false, rest } = given;
  const [query, change] = useQueryState();
  const [choice, choose] = useColumnChoice(id ?? '');
  const widths = useWindowWidths();
  const frame = useRef<HTMLDivElement>(null);
  const scrolls = useOverflow(frame);
  const order = sortable ? validOrder(orderOf(query.get('sort')), given.columns) : null;
  // A phone has no room for more columns.
  const hasMenu = id !== undefined && widths.has('md');
  const chosen = hasMenu ? chosenColumns(given.columns, choice) : given.columns;
  const rows = order === null ? given.rows : sorted(given.rows, given.columns, order);
  useMore(order !== null, rest);
  const download = useDownload<Row>((all) => {
    const values = chosen.flatMap(({ heading, value }) => (value === undefined ? [] : [{ heading, value }]));
    const inOrder = order === null ? all : sorted(all, given.columns, order);
    const lines = inOrder.slice(0, MAX_CSV_ROWS).map((row) => values.map(({ value }) => value(row)));
    saveFile(`${id}.csv`, csv([values.map(({ heading }) => heading), ...lines]), 'text/csv');
    if (all.length >= MAX_CSV_ROWS) notify.success(`The file has the first ${lines.length} rows.`);
  });
  const sort = (to: string | null) => change({ sort: to }, { replace: true });
  const menu = hasMenu && (
    <TableMenu
      columns={given.columns}
      choice={choice}
      widths={widths}
      onChoose={choose}
      onDownload={
        given.columns.some(({ value }) => value !== undefined)
          ? () => void download.start(given.csvRows ?? rows, rest)
          : null
      }
    />
  );
  /** Whether the user added columns for which the window is too narrow. */
  const isWide = hasMenu && choice.shown.size > 0;
  const { columns, menuAt } = hasMenu ? withMenu(chosen) : { columns: chosen, menuAt: null };
  const props = { ...given, columns, rows };
  return (
    <>
      {download.isLoading && (
        <p role="status" className="flex items-center justify-end gap-3 px-4 py-2 text-xs text-ink-3 sm:px-5">
          Loading rows for the CSV file: {rows.length} so far
          <Button size="small" onClick={download.cancel}>
            Cancel
          </Button>
        </p>
      )}
      {/* A scroll container would keep the header from staying visible in the window. */}
      <div ref={frame} className={scrolls ? 'overflow-x-auto' : 'overflow-x-clip'}>
        <table
          className="w-full border-collapse text-sm"
          aria-label={label}
          aria-rowcount={rows.length + 1}
          data-wide={isWide || undefined}
        >
          <thead>
            <tr>
              {columns.map((column) => (
                <th
                  key={column.name}
                  scope="col"
                  aria-sort={
                    order?.column === column.name
                      ? order.descending
                        ? 'descending'
                        : 'ascending'
                      : undefined
                  }
                  className={classNames(
                    'h-9 text-xs font-medium whitespace-nowrap text-ink-3 shadow-[inset_0_-1px_0_var(--color-line)]',
                    'first:rounded-tl-xl last:rounded-tr-xl',
                    scrolls ? 'bg-surface' : STICKY,
                    scrolls && column.name === menuAt && column === columns.at(-1) && 'sticky right-0 z-10',
                    edges(column, columns),
                    column.numeric ? 'text-right' : 'text-left',
                    column.grow && 'w-full',
                  )}
                >
                  <Heading
                    column={column}
                    order={order}
                    onSort={sortable && column.value !== undefined ? sort : null}
                    menu={column.name === menuAt && menu}
                  />
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
    </>
  );
}

interface HeadingProps<Row> {
  column: Column<Row>;
  order: Order | null;
  /** Null: the column does not sort. */
  onSort: ((to: string | null) => void) | null;
  menu: ReactNode;
}

function Heading<Row>({ column, order, onSort, menu }: HeadingProps<Row>) {
  if (column.isControl === true) {
    return (
      <span className="flex items-center justify-end gap-1">
        <span className="sr-only">{column.heading}</span>
        {menu}
      </span>
    );
  }
  if (onSort === null) return column.heading;
  const isSorted = order?.column === column.name;
  const Icon = (isSorted ? order.descending : column.numeric) ? ArrowDown : ArrowUp;
  return (
    <button
      type="button"
      onClick={() => onSort(nextOrder(column.name, column.numeric === true, order))}
      className={classNames(
        'group inline-flex h-7 items-center gap-1 rounded-sm hover:text-ink',
        isSorted && 'text-ink',
        column.numeric && 'flex-row-reverse',
      )}
    >
      {column.heading}
      <Icon
        aria-hidden="true"
        className={classNames(
          'size-3 shrink-0',
          !isSorted && 'opacity-0 group-hover:opacity-60 group-focus-visible:opacity-60',
        )}
      />
    </button>
  );
}

/** Returns the columns that are not hidden. Those that the user chose for narrow windows are always shown. */
function chosenColumns<Row>(
  columns: readonly Column<Row>[],
  { hidden, shown }: ColumnChoice,
): readonly Column<Row>[] {
  return columns
    .filter(({ name }) => !hidden.has(name))
    .map((column) => {
      if (!shown.has(column.name)) return column;
      const { from: _, ...always } = column;
      return always;
    });
}

interface TableMenuProps<Row> {
  columns: readonly Column<Row>[];
  choice: ColumnChoice;
  widths: ReadonlySet<string>;
  onChoose: (choice: ColumnChoice) => void;
  /** Null: there are no values to download. */
  onDownload: (() => void) | null;
}

/** The menu at the end of the header. The first column of values has the name of the row and is always shown. */
function TableMenu<Row>({ columns, choice, widths, onChoose, onDownload }: TableMenuProps<Row>) {
  const { hidden, shown } = choice;
  const fits = ({ from }: Column<Row>) => from === undefined || widths.has(from);
  const optional = columns.filter(({ isControl }) => isControl !== true).slice(1);
  const isShown = (column: Column<Row>) =>
    !hidden.has(column.name) && (shown.has(column.name) || fits(column));
  const chooseShown = (wanted: readonly string[]) => {
    const next = { hidden: new Set(hidden), shown: new Set(shown) };
    for (const column of optional) {
      const { name } = column;
      if (wanted.includes(name) === isShown(column)) continue;
      if (wanted.includes(name)) {
        next.hidden.delete(name);
        if (!fits(column)) next.shown.add(name);
      } else {
        next.shown.delete(name);
        if (fits(column)) next.hidden.add(name);
      }
    }
    onChoose(next);
  };
  return (
    <Menu
      trigger={
        <IconButton label="Table options">
          <Settings2 />
        </IconButton>
      }
    >
      <MenuChecks
        label="Columns"
        choices={optional.map(({ name, heading }) => ({ value: name, label: heading }))}
        checked={optional.filter(isShown).map(({ name }) => name)}
        onChange={chooseShown}
      />
      {hidden.size + shown.size > 0 && (
        <MenuItem onClick={() => onChoose({ hidden: new Set(), shown: new Set() })}>Reset columns</MenuItem>
      )}
      {onDownload !== null && (
        <>
          <MenuSeparator />
          <MenuItem icon={<Download />} onClick={onDownload}>
            Download CSV
          </MenuItem>
        </>
      )}
    </Menu>
  );
}

/** Returns the column whose heading has the menu: that of the actions, or one of its own. */
function withMenu<Row>(columns: readonly Column<Row>[]): {
  columns: readonly Column<Row>[];
  menuAt: string;
} {
  const last = columns.at(-1);
  if (last?.isControl === true && last.from === undefined) return { columns, menuAt: last.name };
  const own: Column<Row> = { name: 'options', heading: 'Options', isControl: true, cell: () => null };
  return { columns: [...columns, own], menuAt: own.name };
}

/** Returns null if the column cannot sort, as in the URL of an older version. */
function validOrder<Row>(order: Order | null, columns: readonly Column<Row>[]): Order | null {
  return columns.some(({ name, value }) => name === order?.column && value !== undefined) ? order : null;
}

function sorted<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  { column, descending }: Order,
): Row[] {
  const value = columns.find(({ name }) => name === column)?.value ?? (() => null);
  return rows
    .map((row) => ({ row, value: value(row) }))
    .toSorted((a, b) => compareValues(a.value, b.value, descending))
    .map(({ row }) => row);
}

/** Loads the rows of a CSV file, then calls `save`. */
function useDownload<Row>(save: (rows: readonly Row[]) => void) {
  const [loading, setLoading] = useState<AbortController | null>(null);
  const start = async (rows: readonly Row[], rest: Rest<Row> | undefined): Promise<void> => {
    if (rest?.hasMore !== true) return save(rows);
    const stop = new AbortController();
    setLoading(stop);
    try {
      save(await rest.loadUpTo(MAX_CSV_ROWS, stop.signal));
    } catch (error) {
      if (!stop.signal.aborted) notify.error(error instanceof Error ? error.message : String(error));
    } finally {
      setLoading(null);
    }
  };
  return { isLoading: loading !== null, start, cancel: () => loading?.abort() };
}

function useOverflow(frame: RefObject<HTMLElement | null>): boolean {
  const [overflows, setOverflows] = useState(false);
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const measure = () => setOverflows(element.scrollWidth > element.clientWidth);
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    if (element.firstElementChild !== null) observer.observe(element.firstElementChild);
    return () => observer.disconnect();
  }, [frame]);
  return overflows;
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
      aria-current={isOpen?.(row) || undefined}
      onClick={
        onOpen &&
        ((event) => {
          // Clicks on links, buttons and menus, and text selection, must not open the row.
          const target = event.target as Element;
          if (
            target.closest('a, button, [role="checkbox"], [role="menu"], [role="dialog"]') === null &&
            getSelection()?.isCollapsed !== false
          )
            onOpen(row);
        })
      }
      className={classNames(
        'h-13 scroll-mt-24 border-b border-line last:border-0',
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
            // Keeps some room beside columns that the user added.
            column.grow && 'max-w-0 in-data-wide:min-w-36',
          )}
        >
          {column.cell(row)}
        </td>
      ))}
    </tr>
  );
}

interface ListFooterProps {
  shown: number;
  /** What the rows are, such as "requests". */
  what: string;
  rest: ListRest;
}

export function ListFooter({ shown, what, rest }: ListFooterProps) {
  const { hasMore, isReadingMore, moreError, more } = rest;
  return (
    <footer className="flex min-h-13 items-center justify-between gap-3 border-t border-line px-4 py-2 text-xs text-ink-3 sm:px-5">
      <span className="min-w-0 tabular-nums">
        {shown} {what}
        {hasMore ? ' loaded' : ''}
        {moreError !== null && (
          <span role="alert" className="block text-bad">
            Could not load more: <CodeText text={moreError.message} />
          </span>
        )}
      </span>
      {hasMore && (
        <Button size="small" className="shrink-0" busy={isReadingMore} onClick={more}>
          {moreError === null ? 'Load more' : 'Try again'}
        </Button>
      )}
    </footer>
  );
}

/** The minimum widths of windows, as in the classes of Tailwind. */
const WIDTHS = { sm: '40rem', md: '48rem', lg: '64rem', xl: '80rem' };

type Width = keyof typeof WIDTHS;

const mediaQuery = (width: string) => `(min-width: ${width})`;

/** Returns the minimum widths that the window has, and renders again when they change. */
export function useWindowWidths(): ReadonlySet<string> {
  return new Set(useSyncExternalStore(listen, snapshot).split(' '));
}

const snapshot = (): string =>
  Object.entries(WIDTHS)
    .flatMap(([name, width]) => (matchMedia(mediaQuery(width)).matches ? [name] : []))
    .join(' ');

function listen(changed: () => void): () => void {
  const queries = Object.values(WIDTHS).map((width) => matchMedia(mediaQuery(width)));
  for (const query of queries) query.addEventListener('change', changed);
  return () => {
    for (const query of queries) query.removeEventListener('change', changed);
  };
}
