/**
 * The locale of dates: English, like the rest of the console, in the variant of the user's browser. Numbers are always in
 * American English, because that is how amounts are entered.
 */
export const DATES: string = navigator.languages.find((language) => /^en\b/.test(language)) ?? 'en-US';

/** Compares texts as people sort them: without regard to case, and numbers in them by value. */
export const compareTexts = new Intl.Collator('en', { numeric: true, sensitivity: 'base' }).compare;

export const NUMBERS = 'en-US';
