import { unsatisfiable, schemaError, type SchemaObject } from './grammar-keywords.ts';

/**
 * Returns a regular expression for the numbers within `minimum`, `maximum`, `exclusiveMinimum` and `exclusiveMaximum`,
 * without exponents. Returns null if there are no bounds. The bounds of a `number` must be whole; those of an `integer`
 * may have fractions.
 */
export function numberExpression(
  type: 'integer' | 'number',
  schema: SchemaObject,
  path: string,
): string | null {
  const lower = tightest(schema, 'minimum', 'exclusiveMinimum');
  const upper = tightest(schema, 'maximum', 'exclusiveMaximum');
  if (lower === null && upper === null) return null;
  const expressions =
    type === 'integer' ? integerExpressions(lower, upper) : numberExpressions(lower, upper, path);
  if (expressions.length === 0) throw unsatisfiable(path);
  return expressions.join('|');
}

interface Bound {
  value: number;
  exclusive: boolean;
}

/** Returns the stricter of an inclusive and an exclusive bound, or null if neither exists. */
function tightest(
  schema: SchemaObject,
  inclusive: 'minimum' | 'maximum',
  exclusive: 'exclusiveMinimum' | 'exclusiveMaximum',
): Bound | null {
  const loose = schema[inclusive] as number | undefined;
  const strict = schema[exclusive] as number | undefined;
  if (strict === undefined) return loose === undefined ? null : { value: loose, exclusive: false };
  const looseIsTighter = loose !== undefined && (inclusive === 'minimum' ? loose > strict : loose < strict);
  return looseIsTighter ? { value: loose, exclusive: false } : { value: strict, exclusive: true };
}

function integerExpressions(lower: Bound | null, upper: Bound | null): string[] {
  const limit = Number.MAX_SAFE_INTEGER;
  const from =
    lower === null ? -limit : lower.exclusive ? Math.floor(lower.value) + 1 : Math.ceil(lower.value);
  const to = upper === null ? limit : upper.exclusive ? Math.ceil(upper.value) - 1 : Math.floor(upper.value);
  const low = Math.max(from, -limit);
  const high = Math.min(to, limit);
  return [
    ...wholeNumbers(Math.max(1, -high), -low).map((expression) => `-${expression}`),
    ...wholeNumbers(Math.max(0, low), high),
  ];
}

/** Numbers have at most 15 digits before the decimal point. */
const NUMBER_LIMIT = 1e15;

function numberExpressions(lower: Bound | null, upper: Bound | null, path: string): string[] {
  for (const bound of [lower, upper]) {
    if (bound !== null && !Number.isInteger(bound.value)) {
      throw schemaError(
        'unsupported_parameter',
        path,
        '`minimum`, `maximum`, `exclusiveMinimum` and `exclusiveMaximum` of a `number` must be whole numbers.',
      );
    }
  }
  const low = lower ?? { value: -NUMBER_LIMIT, exclusive: true };
  const high = upper ?? { value: NUMBER_LIMIT, exclusive: true };
  const negative = low.value < 0 ? magnitudes(negated(high), negated(low)) : [];
  return [...negative.map((expression) => `-${expression}`), ...magnitudes(low, high)];
}

function negated({ value, exclusive }: Bound): Bound {
  return { value: -value, exclusive };
}

/** Returns expressions for the non-negative numbers between two whole bounds. */
function magnitudes(low: Bound, high: Bound): string[] {
  const from = low.value < 0 ? { value: 0, exclusive: false } : low;
  const to = high.value > NUMBER_LIMIT ? { value: NUMBER_LIMIT, exclusive: true } : high;
  const expressions: string[] = [];
  if (from.exclusive && from.value < to.value) expressions.push(`${from.value}\\.[0-9]{0,14}[1-9]`);
  const whole = wholeNumbers(from.exclusive ? from.value + 1 : from.value, to.value - 1);
  expressions.push(...whole.map((expression) => `${expression}(?:\\.[0-9]{1,15})?`));
  const reaches = from.value < to.value || (from.value === to.value && !from.exclusive);
  if (!to.exclusive && reaches) expressions.push(`${to.value}(?:\\.0{1,15})?`);
  return expressions;
}

/** Returns expressions for the whole numbers from `low` (0 or more) to `high`, one for each number of digits. */
function wholeNumbers(low: number, high: number): string[] {
  const expressions: string[] = [];
  const last = String(high);
  for (let first = String(low); Number(first) <= high; first = `1${'0'.repeat(first.length)}`) {
    expressions.push(digitsBetween(first, first.length < last.length ? '9'.repeat(first.length) : last));
  }
  return expressions;
}

/** Returns an expression for the digit strings from `first` to `last`, which have the same length. */
function digitsBetween(first: string, last: string): string {
  const count = first.length - 1;
  const [low, high] = [Number(first[0]), Number(last[0])];
  if (count === 0) return digit(low, high);
  const [firstRest, lastRest] = [first.slice(1), last.slice(1)];
  const [zeros, nines] = ['0'.repeat(count), '9'.repeat(count)];
  if (low === high) return `${low}${digitsBetween(firstRest, lastRest)}`;
  const expressions: string[] = [];
  const from = firstRest === zeros ? low : low + 1;
  const to = lastRest === nines ? high : high - 1;
  if (from > low) expressions.push(`${low}${digitsBetween(firstRest, nines)}`);
  if (from <= to) expressions.push(`${digit(from, to)}[0-9]{${count}}`);
  if (to < high) expressions.push(`${high}${digitsBetween(zeros, lastRest)}`);
  return expressions.length === 1 ? expressions.join('') : `(?:${expressions.join('|')})`;
}

function digit(low: number, high: number): string {
  return low === high ? String(low) : `[${low}-${high}]`;
}
