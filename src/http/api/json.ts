import type { Page } from '../../accounts/page.ts';

export function pageJson<T, E>(
  page: Page<T>,
  toJson: (item: T) => E,
): { data: E[]; next_cursor: string | null } {
  return { data: page.items.map(toJson), next_cursor: page.nextCursor };
}

/** Formats Unix milliseconds as ISO 8601 in UTC. */
export function iso(unixMs: number): string;
export function iso(unixMs: number | null): string | null;
export function iso(unixMs: number | null): string | null {
  return unixMs === null ? null : new Date(unixMs).toISOString();
}
