import { InvalidArgumentError, Option } from 'commander';
import { DEFAULT_PAGE, MAX_PAGE } from '../accounts/bounds.ts';

/** Returns a parser of options that are whole numbers within these bounds. It throws commander's error. */
export function wholeNumber(min: number, max = 999_999_999): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`);
  };
}

/** Returns the option of a list for the number of its entries. */
export function limitOption(entries: string): Option {
  return new Option('--limit <count>', `maximum number of ${entries}, up to ${MAX_PAGE}`)
    .argParser(wholeNumber(1, MAX_PAGE))
    .default(DEFAULT_PAGE);
}
