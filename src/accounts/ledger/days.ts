/** A UTC day in milliseconds: Unix time has no other. */
export const DAY_MS = 86_400_000;

/** The UTC day of a moment (Unix milliseconds), in days since 1970-01-01: what the roll-ups are kept by. */
export function dayOf(atMs: number): number {
  return Math.floor(atMs / DAY_MS);
}
