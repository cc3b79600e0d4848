import { median, quantile } from './statistics.ts';

/**
 * Measures every arm in each round, in alternating order, because other load on the machine differs between rounds. Resolves
 * to the results of each arm, in the order of the rounds.
 */
export async function inTurn<Arm, Result>(
  arms: readonly Arm[],
  rounds: number,
  measure: (arm: Arm, round: number) => Promise<Result>,
): Promise<Result[][]> {
  const measured = arms.map((arm) => ({ arm, results: [] as Result[] }));
  for (let round = 0; round < rounds; round++) {
    for (const { arm, results } of round % 2 === 0 ? measured : measured.toReversed())
      results.push(await measure(arm, round));
  }
  return measured.map(({ results }) => results);
}

/** Formats the median with the middle half of the rounds: `1.22 (1.18 to 1.25)`. */
export function spread(values: readonly number[], digits: number): string {
  const middle = median(values).toFixed(digits);
  if (values.length < 2) return middle;
  return `${middle} (${quantile(values, 0.25).toFixed(digits)} to ${quantile(values, 0.75).toFixed(digits)})`;
}

/** Width of the text of `compared`. */
export const COMPARED_WIDTH = 40;

/** Formats the medians of two arms, and their ratios per round: `12.3 / 10.1  1.22 (1.18 to 1.25)`. */
export function compared(values: readonly number[], base: readonly number[], digits: number): string {
  const [a, b] = [values, base].map((each) => median(each).toFixed(digits).padStart(8));
  const ratios = values.map((value, round) => value / (base[round] ?? NaN));
  return `${a} /${b}  ${spread(ratios, 2)}`.padEnd(COMPARED_WIDTH);
}
