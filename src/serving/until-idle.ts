import { setTimeout } from 'node:timers/promises';

/** Interval at which the running requests are counted, in milliseconds. */
const CHECK_MS = 100;

/** Resolves when no request runs on the replicas, or after `maxMs`. */
export async function untilIdle(
  replicas: readonly { readonly inFlight: number }[],
  maxMs: number,
): Promise<void> {
  const end = performance.now() + maxMs;
  while (replicas.some(({ inFlight }) => inFlight > 0) && performance.now() < end) {
    await setTimeout(CHECK_MS, undefined, { ref: false });
  }
}
