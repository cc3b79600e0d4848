/**
 * `source_failed`: this source cannot give the file, another may. `disk_full`, `disk_failed`: no source can help. `unknown_model`:
 * the name is neither a catalogue id nor a source. `all_failed`: every source was tried. `busy`: someone else
 * fetches the file now. `not_here`: no such model was pulled.
 */
export type PullFault =
  | 'source_failed'
  | 'disk_full'
  | 'disk_failed'
  | 'unknown_model'
  | 'all_failed'
  | 'busy'
  | 'not_here';

/** A model file that could not be had. The message is for operators: it names files and hosts, never a secret. */
export class PullError extends Error {
  readonly fault: PullFault;

  constructor(fault: PullFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'PullError';
    this.fault = fault;
  }
}

/** A system error's code, such as `ENOSPC`; null where there is none. */
export function systemCode(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}

/** An error in one line, with the code or message of what lies at its root. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof PullError) return error.message;
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  if (error.cause instanceof Error) return reasonOf(error.cause);
  const code = systemCode(error);
  const message = error.message.split('\n')[0] ?? '';
  return code === null || message.includes(code) ? message : `${message} (${code})`;
}
