import { useEffect, useState } from 'react';
import { MethodBadge } from './method-badge.tsx';
import type { Group } from './operations.ts';

/** The navigation of the API reference. Highlights the visible operation. */
export function DocsNav({ groups }: { groups: readonly Group[] }) {
  const read = useReadSection(groups);
  return (
    <nav
      aria-label="Operations"
      className="max-h-[60dvh] overflow-y-auto xl:max-h-[calc(100dvh-7rem)] xl:pr-2"
    >
      {groups.map(({ label, entries }) => (
        <div key={label} className="mb-4">
          <p className="mb-1 px-2 text-2xs font-medium text-ink-3">{label}</p>
          <ul>
            {entries.map(({ id, method }) => (
              <li key={id}>
                <a
                  ref={read === id ? reveal : undefined}
                  href={`#${id}`}
                  aria-current={read === id ? 'location' : undefined}
                  className="flex h-7 items-center justify-between gap-2 rounded-md px-2 text-xs text-ink-2 hover:bg-hover hover:text-ink aria-[current]:bg-hover aria-[current]:font-medium aria-[current]:text-ink"
                >
                  <span className="truncate">{id}</span>
                  <span className="shrink-0 scale-90" aria-hidden="true">
                    <MethodBadge method={method} />
                  </span>
                </a>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

/** Scrolls the list to the highlighted link without scrolling the page. */
function reveal(link: HTMLAnchorElement | null): void {
  const list = link?.closest('nav');
  if (!link || !list) return;
  const place = link.getBoundingClientRect();
  const seen = list.getBoundingClientRect();
  if (place.top < seen.top) list.scrollTop -= seen.top - place.top;
  else if (place.bottom > seen.bottom) list.scrollTop += place.bottom - seen.bottom;
}

/** Returns the id of the section at the top of the window. */
function useReadSection(groups: readonly Group[]): string | null {
  const [read, setRead] = useState<string | null>(null);
  useEffect(() => {
    const observer = new IntersectionObserver(
      (changes) => {
        for (const { isIntersecting, target } of changes) if (isIntersecting) setRead(target.id);
      },
      { rootMargin: '-10% 0px -80% 0px' },
    );
    for (const { id } of groups.flatMap(({ entries }) => entries)) {
      const section = document.getElementById(id);
      if (section !== null) observer.observe(section);
    }
    return () => observer.disconnect();
  }, [groups]);
  return read;
}
