const DAY_MS = 86_400_000;

/** Days since 1970-01-01, UTC. */
export function utcDay(atMs: number): number {
  return Math.floor(atMs / DAY_MS);
}

/** Months since the year 0, UTC. */
export function utcMonth(atMs: number): number {
  const date = new Date(atMs);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

/** Unix milliseconds at which the UTC day of that moment ends. */
export function endOfDay(atMs: number): number {
  return (utcDay(atMs) + 1) * DAY_MS;
}

/** Unix milliseconds at which the UTC month of that moment ends. */
export function endOfMonth(atMs: number): number {
  const date = new Date(atMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
}
