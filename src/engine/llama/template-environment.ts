import { type Environment, Interpreter } from '@huggingface/jinja';

/** Thrown by a template with `raise_exception`, and if rendering takes too long. */
export class TemplateRefusal extends Error {}

/** Limits the work of rendering one request, because rendering cannot be interrupted. */
export class RenderingWork {
  #left = MAX_WORK;

  /** Runs a parsed template. Throws `TemplateRefusal` if the work exceeds the limit. */
  run(program: object, environment: Environment): string {
    const interpreter = new Interpreter(environment) as EvaluatingInterpreter;
    const evaluate = interpreter.evaluate.bind(interpreter);
    interpreter.evaluate = (node, scope) => {
      if (--this.#left < 0) throw new TemplateRefusal('There are too many messages or tools to render.');
      return evaluate(node, scope);
    };
    // Running a template returns a string.
    return interpreter.run(program).value as string;
  }
}

/** The interpreter evaluates nested expressions and statements with its own method `evaluate`. */
interface EvaluatingInterpreter {
  evaluate(node: unknown, environment: unknown): unknown;
  run(program: object): { value: unknown };
}

/**
 * Maximum number of expressions and statements to evaluate, of about 0.2 µs each. Some templates search all messages for
 * each message: that of gpt-oss needs this many for about 700 calls.
 */
const MAX_WORK = 5_000_000;

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
