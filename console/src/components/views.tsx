import { Popover } from '@base-ui/react/popover';
import { Bookmark, ChevronsUpDown } from 'lucide-react';
import { useMemo, useState, useSyncExternalStore } from 'react';
import { useSession } from '../state/session.tsx';
import { useQueryState } from '../state/url-query.ts';
import { userItems } from '../state/user-storage.ts';
import { classNames } from './class-names.ts';
import { POPUP } from './popup.ts';
import { SavedItems } from './saved-items.ts';
import { SavedList } from './saved-list.tsx';

/** A view of a table: the URL parameters of its filters and its order. */
interface View {
  query: string;
}

interface ViewsProps {
  /** Name of the table, under which its views are stored. */
  table: string;
  /** The URL parameters of a view. */
  parameters: readonly string[];
}

/** Saves the filters and the order of a table under names, and opens saved ones by changing the URL. */
export function Views({ table, parameters }: ViewsProps) {
  const { user } = useSession();
  const views = useMemo(() => viewsOf(user.id, table), [user.id, table]);
  const list = useSyncExternalStore(views.subscribe, () => views.list);
  const [query, change] = useQueryState();
  const [open, setOpen] = useState(false);
  const shown = viewQuery(query, parameters);
  const isShown = (view: View) => viewQuery(new URLSearchParams(view.query), parameters) === shown;
  const current = list.find(isShown);
  const show = (view: View) => {
    const wanted = new URLSearchParams(view.query);
    change(Object.fromEntries(parameters.map((name) => [name, wanted.get(name)])));
    setOpen(false);
  };
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      <Popover.Trigger className="inline-flex h-8 min-w-0 shrink-0 items-center gap-2 rounded-md border border-line-strong bg-surface px-2.5 text-xs text-ink transition-colors hover:bg-hover">
        <Bookmark className="size-3.5 shrink-0 text-ink-3" aria-hidden="true" />
        {current === undefined ? (
          'Views'
        ) : (
          <>
            <span className="sr-only">View: </span>
            <span className="max-w-32 truncate">{current.name}</span>
          </>
        )}
        <ChevronsUpDown className="size-3.5 shrink-0 text-ink-3" aria-hidden="true" />
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Positioner sideOffset={4} align="end" collisionPadding={12} className="z-40 outline-none">
          <Popover.Popup
            aria-label="Views"
            className={classNames(
              POPUP,
              'max-h-[var(--available-height)] w-84 max-w-[var(--available-width)] overflow-y-auto p-4',
            )}
          >
            <SavedList
              items={views}
              label="Saved views"
              what="View"
              saveLabel="Save the current filters as"
              current={() => ({ query: shown })}
              isCurrent={isShown}
              onOpen={show}
            />
            <p className="mt-2 text-xs text-ink-3">Stored only in this browser, until you sign out.</p>
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}

function viewsOf(userId: string, table: string): SavedItems<View> {
  return new SavedItems<View>(userItems(userId), {
    item: `views.${table}`,
    what: 'views',
    parse: ({ query }) => (typeof query === 'string' ? { query } : null),
  });
}

/** Returns the parameters of a view, in their order. */
function viewQuery(query: URLSearchParams, parameters: readonly string[]): string {
  const set = parameters.flatMap((name) => {
    const value = query.get(name);
    return value === null || value === '' ? [] : [[name, value]];
  });
  return new URLSearchParams(set).toString();
}
