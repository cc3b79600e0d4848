/**
 * Compares Sluice with other routers, in front of four scripted engines with a simulated prefix cache
 * (`routing/engines.ts`). The first three loads are conversations or single questions of nine accounts; in the third, a
 * tenth account floods the router. The last load is single requests of one account, before and during such a flood. The
 * routers take turns in several rounds. Each round has its own load, the same for all routers and in every run. Each
 * measurement starts a new router and new engines. Prints medians with the middle half of the rounds.
 *
 *   npm run bench:routing
 *
 * vllm-router and smg run if they are on the PATH, or at the paths in `--vllm-router` and `--smg`. `--only "sluice cost,smg"`
 * selects routers, and `--load conversations,fairness` selects loads. `--seed` changes the loads.
 */
import { parseArgs } from 'node:util';
import { inTurn, spread } from './rounds.ts';
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
    rounds: { type: 'string', default: '5' },
  },
});

const arms = selected('--only', options.only, [...SLUICE, ...peerArms(options)]);
const loads = selected('--load', options.load, [
  ...MIXES.map((mix) => ({
    name: mix.name,
    measure: (arm: Arm, round: number) => mixResult(arm, mix, round),
  })),
  { name: 'fairness', measure: fairnessResult },
]);

for (const { name, measure } of loads) {
  console.log(`${name}, ${options.rounds} rounds`);
  const failures = new Map<Arm, string>();
  const results = await inTurn(arms, Number(options.rounds), async (arm, round) => {
    if (failures.has(arm)) return null;
    // A peer that fails is reported and skipped.
    return await measure(arm, round).catch((error: unknown) => {
      failures.set(arm, String(error));
      return null;
    });
  });
  for (const [index, arm] of arms.entries()) {
    const rounds = (results[index] ?? []).filter((result) => result !== null);
    console.log(`  ${arm.name.padEnd(21)} ${failures.get(arm) ?? formatted(rounds)}`);
  }
}
process.exit(0);

/** The measurements of a round, in the order in which they are printed. */
type RoundResult = Readonly<Record<string, { value: number; digits: number; unit: string }>>;

async function mixResult(arm: Arm, mix: Mix, round: number): Promise<RoundResult> {
  const result = await measureMix(arm, mix, Number(options.seed) + round);
  return {
    'TTFT p50': { value: result.firstMedianMs, digits: 0, unit: 'ms' },
    p99: { value: result.first99Ms, digits: 0, unit: 'ms' },
    total: { value: result.totalMs / 1000, digits: 1, unit: 's' },
    cached: { value: 100 * result.cachedShare, digits: 0, unit: '%' },
    imbalance: { value: result.imbalance, digits: 2, unit: '' },
    CPU: { value: result.cpuMicros, digits: 0, unit: 'us' },
    requests: { value: result.requests, digits: 0, unit: '' },
    failed: { value: result.failures, digits: 0, unit: '' },
  };
}

async function fairnessResult(arm: Arm): Promise<RoundResult> {
  const { idleMs, floodedMs, residualMs } = await measureFairness(arm);
  return {
    'TTFT of one request: idle': { value: idleMs, digits: 0, unit: 'ms' },
    flooded: { value: floodedMs, digits: 0, unit: 'ms' },
    ratio: { value: floodedMs / idleMs, digits: 2, unit: '' },
    // A request may have to wait until a request of the flood ends.
    'goal: at most': { value: 1.2 * idleMs + residualMs, digits: 0, unit: 'ms' },
  };
}

function formatted(rounds: readonly RoundResult[]): string {
  return Object.entries(rounds[0] ?? {})
    .map(([name, { digits, unit }]) => {
      const values = rounds.map((round) => round[name]?.value ?? NaN);
      return `${name} ${spread(values, digits)} ${unit}`.trimEnd();
    })
    .join(', ');
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
