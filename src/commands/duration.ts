import { InvalidArgumentError } from 'commander';

const UNITS_MS: ReadonlyMap<string, number> = new Map([
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
  ['d', 86_400_000],
  ['w', 604_800_000],
]);

/** Ten years. */
const MAX_MS = 3650 * 86_400_000;

/** `30d`, `12h`, `90m`, `45s` or `2w` in milliseconds, at most ten years. For commander: throws its error. */
export function parseDuration(text: string): number {
  const [, digits = '', unit = ''] = /^(\d{1,9})([smhdw])$/.exec(text) ?? [];
  const duration = Number(digits) * (UNITS_MS.get(unit) ?? 0);
  if (duration <= 0 || duration > MAX_MS) {
    throw new InvalidArgumentError('Expected a duration such as 30d, 12h, 90m, 45s or 2w, at most 3650d.');
  }
  return duration;
}
