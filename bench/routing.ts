/**
 * Compares Sluice with other routers, in front of four scripted engines with a simulated prefix cache
 * (`routing/engines.ts`). The first three loads are conversations or single questions of nine accounts; in the third, a
 * tenth account floods the router. The last load is single requests of one account, before and during such a flood. The
 * load is the same in every run. Each measurement starts a new router and new engines.
 *
 *   npm run bench:routing
 *
 * vllm-router and smg run if they are on the PATH, or at the paths in `--vllm-router` and `--smg`. `--only "sluice cost,smg"`
 * selects routers, and `--load conversations,fairness` selects loads. `--seed` changes the load.
 */
import { parseArgs } from 'node:util';
import { peerArms, SLUICE, type Arm } from './routing/arms.ts';
import { MIXES, type Mix } from './routing/load.ts';
import { measureFairness, measureMix } from './routing/measurements.ts';

const { values: options } = parseArgs({
  options: {
    'vllm-router': { type: 'string' },
    smg: { type: 'string' },
    only: { type: 'string' },
    load: { type: 'string' },
    seed: { type: 'string', default: '1' },
  },
});

const arms = selected('--only', options.only, [...SLUICE, ...peerArms(options)]);
const loads = selected('--load', options.load, [
  ...MIXES.map((mix) => ({ name: mix.name, measure: (arm: Arm) => mixResult(arm, mix) })),
  { name: 'fairness', measure: fairnessResult },
]);

for (const { name, measure } of loads) {
  console.log(name);
  for (const arm of arms) {
    // A peer that fails is reported and skipped.
    const text = await measure(arm).catch((error: unknown) => String(error));
    console.log(`  ${arm.name.padEnd(21)} ${text}`);
  }
}
process.exit(0);

async function mixResult(arm: Arm, mix: Mix): Promise<string> {
  const result = await measureMix(arm, mix, Number(options.seed));
  return [
    `TTFT p50 ${result.firstMedianMs.toFixed(0)} ms`,
    `p99 ${result.first99Ms.toFixed(0)} ms`,
    `total ${(result.totalMs / 1000).toFixed(1)} s`,
    `cached ${(100 * result.cachedShare).toFixed(0)} %`,
    `imbalance ${result.imbalance.toFixed(2)}`,
    `CPU ${result.cpuMicros.toFixed(0)} us`,
    `${result.requests} requests`,
    `${result.failures} failed`,
  ].join(', ');
}

async function fairnessResult(arm: Arm): Promise<string> {
  const { idleMs, floodedMs, residualMs } = await measureFairness(arm);
  // A request may have to wait until a request of the flood ends.
  const goalMs = 1.2 * idleMs + residualMs;
  return [
    `TTFT of one request: idle ${idleMs.toFixed(0)} ms`,
    `flooded ${floodedMs.toFixed(0)} ms, ratio ${(floodedMs / idleMs).toFixed(2)}`,
    `goal: at most ${goalMs.toFixed(0)} ms`,
  ].join(', ');
}

/** Returns the items whose names are in the option, or all if the option is not set. Throws for an unknown name. */
function selected<T extends { name: string }>(option: string, value: string | undefined, all: T[]): T[] {
  const names = value?.split(',') ?? all.map(({ name }) => name);
  return names.map((name) => {
    const found = all.find((item) => item.name === name);
    if (found) return found;
    throw new Error(`${option}: ${name} is not one of ${all.map((item) => item.name).join(', ')}`);
  });
}
