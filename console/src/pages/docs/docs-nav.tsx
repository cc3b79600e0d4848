import { Link } from '../../components/link.tsx';
import { MethodBadge } from './method-badge.tsx';
import type { Group } from '../../api/operations.ts';

/** The navigation of the API reference. `current`: the operation of this page. */
export function DocsNav({ groups, current }: { groups: readonly Group[]; current: string | null }) {
  return (
    <nav
      aria-label="Operations"
      className="max-h-[60dvh] overflow-y-auto xl:max-h-[calc(100dvh-7rem)] xl:pr-2"
    >
      {groups.length === 0 && <p className="px-2 text-xs text-ink-3">No matching operations</p>}
      {groups.map(({ label, entries }) => (
        <div key={label} className="mb-4">
          <p className="mb-1 px-2 text-2xs font-medium text-ink-3">{label}</p>
          <ul>
            {entries.map(({ id, title, method }) => (
              <li key={id}>
                <Link
                  ref={current === id ? reveal : undefined}
                  to={`/docs/${id}`}
                  aria-current={current === id ? 'page' : undefined}
                  className="flex min-h-7 items-center justify-between gap-2 rounded-md px-2 py-1 text-xs text-ink-2 hover:bg-hover hover:text-ink aria-[current]:bg-hover aria-[current]:font-medium aria-[current]:text-ink"
                >
                  <span className="min-w-0">{title}</span>
                  <span className="shrink-0 scale-90" aria-hidden="true">
                    <MethodBadge method={method} />
                  </span>
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

/** Scrolls the list to the current link without scrolling the page. */
function reveal(link: HTMLAnchorElement | null): void {
  const list = link?.closest('nav');
  if (!link || !list) return;
  const place = link.getBoundingClientRect();
  const seen = list.getBoundingClientRect();
  if (place.top < seen.top) list.scrollTop -= seen.top - place.top;
  else if (place.bottom > seen.bottom) list.scrollTop += place.bottom - seen.bottom;
}
