import type { ReactNode } from 'react';
import { Disclosure } from '../../components/disclosure.tsx';
import { Link } from '../../components/link.tsx';

interface DocsNavProps {
  /** Accessible name. */
  label: string;
  groups: readonly { label: string; links: readonly { to: string; title: string; aside?: ReactNode }[] }[];
  current: string;
  open?: boolean;
}

/** A navigation beside the content; collapsed above it on narrow windows. */
export function DocsNav({ label, groups, current, open = false }: DocsNavProps) {
  const nav = (
    <nav aria-label={label} className="max-h-[60dvh] overflow-y-auto xl:max-h-[calc(100dvh-7rem)] xl:pr-2">
      {groups.length === 0 && <p className="px-2 text-xs text-ink-3">No matches</p>}
      {groups.map(({ label: heading, links }) => (
        <div key={heading} className="mb-4">
          <p className="mb-1 px-2 text-2xs font-medium text-ink-3">{heading}</p>
          <ul>
            {links.map(({ to, title, aside }) => (
              <li key={to}>
                <Link
                  ref={current === to ? reveal : undefined}
                  to={to}
                  aria-current={current === to ? 'page' : undefined}
                  className="flex min-h-7 items-center justify-between gap-2 rounded-md px-2 py-1 text-xs text-ink-2 hover:bg-hover hover:text-ink aria-[current]:bg-hover aria-[current]:font-medium aria-[current]:text-ink"
                >
                  <span className="min-w-0">{title}</span>
                  {aside}
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
  return (
    <>
      <div className="hidden xl:block">{nav}</div>
      <Disclosure framed label={`All ${label.toLowerCase()}`} open={open} className="bg-surface xl:hidden">
        <div className="border-t border-line p-2">{nav}</div>
      </Disclosure>
    </>
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
