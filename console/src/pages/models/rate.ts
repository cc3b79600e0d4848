/** How much had come at a moment, in Unix milliseconds. */
export interface Sample {
  atMs: number;
  bytes: number;
}

/** A rate is taken over so many milliseconds. */
const SPAN_MS = 10_000;

/** The samples with one more; those that are too old go, and all of them where a download has begun anew. */
export function withSample(samples: readonly Sample[], one: Sample): Sample[] {
  const last = samples.at(-1);
  if (last !== undefined && last.bytes > one.bytes) return [one];
  return [...samples.filter(({ atMs }) => atMs >= one.atMs - SPAN_MS), one];
}

/** Bytes a second; null: too little is known yet. */
export function rateOf(samples: readonly Sample[]): number | null {
  const [first] = samples;
  const last = samples.at(-1);
  if (first === undefined || last === undefined || last.atMs - first.atMs < 900) return null;
  return ((last.bytes - first.bytes) / (last.atMs - first.atMs)) * 1000;
}
