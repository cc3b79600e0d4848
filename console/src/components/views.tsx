import { Bookmark, ChevronsUpDown } from 'lucide-react';
import { lazy, Suspense, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import { useSession } from '../state/session.tsx';
import { useQueryState } from '../state/url-query.ts';
import { userItems } from '../state/user-storage.ts';
import { useWasTrue } from './opening.ts';
import { SavedItems } from './saved-items.ts';
import type { View } from './views-popup.tsx';

const ViewsPopup = lazy(() => import('./views-popup.tsx'));

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
  const wasOpened = useWasTrue(open);
  const button = useRef<HTMLButtonElement>(null);
  const shown = viewQuery(query, parameters);
  const isShown = (view: View) => viewQuery(new URLSearchParams(view.query), parameters) === shown;
  const current = list.find(isShown);
  const show = (view: View) => {
    const wanted = new URLSearchParams(view.query);
    change(Object.fromEntries(parameters.map((name) => [name, wanted.get(name)])));
    setOpen(false);
  };
  return (
    <>
      <button
        ref={button}
        type="button"
        aria-haspopup="dialog"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        className="inline-flex h-8 min-w-0 shrink-0 items-center gap-2 rounded-md border border-line-strong bg-surface px-2.5 text-xs text-ink transition-colors hover:bg-hover"
      >
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
      </button>
      {wasOpened && (
        <Suspense>
          <ViewsPopup
            button={button}
            open={open}
            onClose={() => setOpen(false)}
            views={views}
            current={{ query: shown }}
            isShown={isShown}
            onShow={show}
          />
        </Suspense>
      )}
    </>
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
