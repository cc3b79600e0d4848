import { useSyncExternalStore } from 'react';

/** The minimum widths of windows, as in the classes of Tailwind. */
const WIDTHS = { sm: '40rem', md: '48rem', lg: '64rem', xl: '80rem' };

export type Width = keyof typeof WIDTHS;

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
