/** Thrown by a template with `raise_exception`. */
export class TemplateRefusal extends Error {}

/**
 * Returns the variables and functions that Hugging Face's renderer provides to templates. Unless `isStrict`, templates
 * cannot refuse turns because their roles do not alternate: those of Mistral refuse a message of the user after a tool
 * result, but render it.
 */
export function rendererNames(now: () => Date, isStrict: boolean): Record<string, unknown> {
  return {
    ...CONSTANTS,
    raise_exception: (message: unknown) => {
      if (!isStrict && String(message).includes('must alternate')) return '';
      throw new TemplateRefusal(String(message));
    },
    range: pythonRange,
    strftime_now: (format: string) => strftime(now(), format),
  };
}

/** Returns the date in the form of Firefunction's variable `datetime`. */
export function dateOf(date: Date): string {
  return strftime(date, '%b %d %Y');
}

const CONSTANTS = { true: true, false: false, none: null, True: true, False: false, None: null };

/** Python's `range`. */
function pythonRange(first: number, second?: number, step = 1): number[] {
  const [start, end] = second === undefined ? [0, first] : [first, second];
  const numbers: number[] = [];
  if (step > 0) for (let value = start; value < end; value += step) numbers.push(value);
  if (step < 0) for (let value = start; value > end; value += step) numbers.push(value);
  return numbers;
}

/** Python's `strftime` in English, for the directives that templates use. */
function strftime(date: Date, format: string): string {
  return format.replace(/%[a-zA-Z%]/g, (directive) => DIRECTIVES[directive]?.(date) ?? directive);
}

const DIRECTIVES: Readonly<Record<string, (date: Date) => string>> = {
  '%Y': (date) => String(date.getFullYear()),
  '%y': (date) => String(date.getFullYear() % 100).padStart(2, '0'),
  '%m': (date) => String(date.getMonth() + 1).padStart(2, '0'),
  '%d': (date) => String(date.getDate()).padStart(2, '0'),
  '%B': (date) => date.toLocaleString('en-US', { month: 'long' }),
  '%b': (date) => date.toLocaleString('en-US', { month: 'short' }),
  '%A': (date) => date.toLocaleString('en-US', { weekday: 'long' }),
  '%a': (date) => date.toLocaleString('en-US', { weekday: 'short' }),
  '%H': (date) => String(date.getHours()).padStart(2, '0'),
  '%M': (date) => String(date.getMinutes()).padStart(2, '0'),
  '%S': (date) => String(date.getSeconds()).padStart(2, '0'),
  '%%': () => '%',
};
