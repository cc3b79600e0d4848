/** A UTC day in milliseconds. Unix time has no leap seconds. */
export const DAY_MS = 86_400_000;

/** Converts Unix milliseconds to the UTC day, in days since 1970-01-01. */
export function dayOf(atMs: number): number {
  return Math.floor(atMs / DAY_MS);
}
