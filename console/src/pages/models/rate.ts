/** How many bytes of a download had arrived by `atMs`, in Unix milliseconds. */
export interface Sample {
  atMs: number;
  bytes: number;
}

/** Window of the rate, in milliseconds. */
const SPAN_MS = 10_000;

/** Adds a sample and drops old ones, or all of them if the download has restarted. */
export function withSample(samples: readonly Sample[], one: Sample): Sample[] {
  const last = samples.at(-1);
  if (last !== undefined && last.bytes > one.bytes) return [one];
  return [...samples.filter(({ atMs }) => atMs >= one.atMs - SPAN_MS), one];
}

/** Returns the rate in bytes per second; null: not enough samples. */
export function rateOf(samples: readonly Sample[]): number | null {
  const [first] = samples;
  const last = samples.at(-1);
  if (first === undefined || last === undefined || last.atMs - first.atMs < 900) return null;
  return ((last.bytes - first.bytes) / (last.atMs - first.atMs)) * 1000;
}
