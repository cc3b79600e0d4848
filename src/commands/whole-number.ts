import { InvalidArgumentError } from 'commander';

/** Returns a parser of options that are whole numbers within these bounds. It throws commander's error. */
export function wholeNumber(min: number, max = 999_999_999): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`);
  };
}
