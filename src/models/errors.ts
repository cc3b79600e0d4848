/**
 * `source_failed`: another source may work. `unknown_model`: the name is neither an ID in the catalog nor a source.
 * `all_failed`: every source failed. `busy`: the file is being downloaded. `not_downloaded`: there is no such file in the
 * models folder.
 */
type PullFault =
  | 'source_failed'
  | 'disk_full'
  | 'disk_failed'
  | 'unknown_model'
  | 'all_failed'
  | 'busy'
  | 'not_downloaded';

/** A failed download or removal. The message is for operators and contains no secrets. */
export class PullError extends Error {
  readonly fault: PullFault;

  constructor(fault: PullFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'PullError';
    this.fault = fault;
  }
}

/** Returns the code of a system error, such as `ENOSPC`, or null. */
export function systemCode(error: unknown): string | null {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
}

/** Describes an error by its root cause, in one line. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof PullError) return error.message;
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  if (error.cause instanceof Error) return reasonOf(error.cause);
  const code = systemCode(error);
  const message = error.message.split('\n')[0] ?? '';
  return code === null || message.includes(code) ? message : `${message} (${code})`;
}

export type ModelFileFault = 'missing' | 'not_a_gguf' | 'truncated' | 'unsupported' | 'damaged';

/** A file that cannot be loaded as a model. Retrying cannot help. The message is for operators. */
export class ModelFileError extends Error {
  readonly fault: ModelFileFault;
  readonly path: string;

  constructor(fault: ModelFileFault, path: string, reason: string, options?: ErrorOptions) {
    super(`${path}: ${reason}`, options);
    this.name = 'ModelFileError';
    this.fault = fault;
    this.path = path;
  }
}
