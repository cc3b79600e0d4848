/**
 * fast-check with one seed per commit, so that a run of the same commit has the same result, and with fewer runs unless
 * `SLUICE_TEST_RUNS` asks for more. All property tests import it from here. A failure prints the seed.
 */
import { execFileSync } from 'node:child_process';
import * as fastCheck from 'fast-check';

export * from 'fast-check';

/** The number of runs where a property gives none, as in fast-check. */
const RUNS = 100;

/** At least so many runs, unless the property asks for fewer. */
const LEAST_RUNS = 20;

/** The share of the runs. A quarter finds most faults, and CI does all. */
const share = Number(process.env.SLUICE_TEST_RUNS ?? 0.25);

const seed = Number(process.env.SLUICE_TEST_SEED ?? seedOfCommit());

export const assert = ((property: fastCheck.IRawProperty<unknown>, parameters: { numRuns?: number } = {}) => {
  const { numRuns = RUNS } = parameters;
  const scaled = Math.max(Math.ceil(numRuns * share), Math.min(numRuns, LEAST_RUNS));
  return fastCheck.assert(property, { seed, ...parameters, numRuns: scaled });
}) as typeof fastCheck.assert; // The overloads for synchronous and asynchronous properties differ in their result.

/** Returns a number of 32 bits that changes with each commit; outside a clone, always the same. */
function seedOfCommit(): number {
  try {
    const commit = execFileSync('git', ['rev-parse', 'HEAD'], {
      cwd: import.meta.dirname,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return Number.parseInt(commit.slice(0, 8), 16) | 0;
  } catch {
    return 1;
  }
}
