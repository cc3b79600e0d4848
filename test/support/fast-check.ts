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

/** Surrogates are no code points of a text. */
const SURROGATES = { from: 0xd800, count: 0x800 };

const codePoint = fastCheck.nat(0x10ffff - SURROGATES.count).map(
  (index) => String.fromCodePoint(index < SURROGATES.from ? index : index + SURROGATES.count),
  (text) => {
    const point = typeof text === 'string' ? text.codePointAt(0) : undefined;
    if (point === undefined || text !== String.fromCodePoint(point)) throw new Error('no code point');
    return point < SURROGATES.from ? point : point - SURROGATES.count;
  },
);

/** As in fast-check, without its table of all code points for the unit `binary`, which takes 1 to 2 s and 120 MB. */
export function string(constraints: fastCheck.StringConstraints = {}): fastCheck.Arbitrary<string> {
  return fastCheck.string(constraints.unit === 'binary' ? { ...constraints, unit: codePoint } : constraints);
}

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
