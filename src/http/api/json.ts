import type { Page } from '../../accounts/page.ts';

/** A page as it is answered. */
export function pageJson<T, E>(
  page: Page<T>,
  toJson: (item: T) => E,
): { data: E[]; next_cursor: string | null } {
  return { data: page.items.map(toJson), next_cursor: page.nextCursor };
}

/** Unix milliseconds as they are answered. */
export function iso(unixMs: number): string;
export function iso(unixMs: number | null): string | null;
export function iso(unixMs: number | null): string | null {
  return unixMs === null ? null : new Date(unixMs).toISOString();
}
