import { validationErrors } from './validation-errors.ts';
import { jsonObject, parseJsonObject } from './values.ts';

/**
 * Fields that some OpenAI-compatible servers require and others refuse. OpenAI's reasoning models refuse `max_tokens`,
 * and other providers do not know its new name `max_completion_tokens`. Mistral's API refuses `stream_options`, and
 * reports the usage without it.
 */
export type RefusableField = 'max_tokens' | 'stream_options';

/** The patterns match only the beginning of an error message, because the rest may quote the caller's text. */
const REFUSED: readonly (readonly [RegExp, RefusableField])[] = [
  [/^Unsupported parameter: 'max_tokens'/, 'max_tokens'],
  [
    /^(?:(?:Unsupported|Unknown) parameter: |Unrecognized request argument supplied: |property )'?stream_options\b/,
    'stream_options',
  ],
];

/** Returns the field that the error response names as refused; null: none. */
export function readRefusedField(status: number, body: string): RefusableField | null {
  if (status !== 400 && status !== 422) return null;
  const whole = parseJsonObject(body);
  const { message } = jsonObject(whole['error']);
  if (typeof message === 'string') {
    return REFUSED.find(([pattern]) => pattern.test(message))?.[1] ?? null;
  }
  const unknown = validationErrors(whole).filter(({ type }) => type === 'extra_forbidden');
  return unknown.some(({ path }) => path[0] === 'stream_options') ? 'stream_options' : null;
}
