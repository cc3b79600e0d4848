/** What is wrong with the database: for operators, and for deciding whether to wait or to stop. */
export type DatabaseFault =
  /** The file or its folder cannot be opened or written. */
  | 'unwritable'
  /** The file is there and is something else, or is damaged. */
  | 'not_a_database'
  /** A later version of the program has changed the tables. */
  | 'newer_schema'
  /** No space is left on the device. */
  | 'full'
  /** Another process held the database longer than the wait allowed. */
  | 'busy'
  /** Anything else SQLite reported; the cause has it. */
  | 'failed';

/** A fault of the database. The message names the file and what to do; it is for operators, not for callers. */
export class DatabaseError extends Error {
  readonly fault: DatabaseFault;

  constructor(fault: DatabaseFault, message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.name = 'DatabaseError';
    this.fault = fault;
  }
}

/** Primary result codes of SQLite (https://sqlite.org/rescode.html) that an operator can do something about. */
const FAULTS: ReadonlyMap<number, readonly [DatabaseFault, string]> = new Map([
  [3, ['unwritable', 'cannot be read or written: check who owns it']],
  [5, ['busy', 'is locked by another process']],
  [6, ['busy', 'is locked by another process']],
  [8, ['unwritable', 'cannot be written: check its owner, its mode, and whether the disk is read-only']],
  [10, ['unwritable', 'could not be read from or written to the disk']],
  [11, ['not_a_database', 'is damaged: bring back a backup, or move it away to start afresh']],
  [13, ['full', 'cannot grow: the disk is full']],
  [14, ['unwritable', 'cannot be opened: check that its folder is there and that this user may write in it']],
  [26, ['not_a_database', 'is not a SQLite database: move it away, or set SLUICE_HOME to another folder']],
]);

/** Turns an error of `node:sqlite` into a `DatabaseError` that names the file; other errors pass unchanged. */
export function asDatabaseError(error: unknown, path: string): unknown {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return error;
  const [fault, words] = FAULTS.get(error.errcode & 0xff) ?? ['failed', `failed: ${error.message}`];
  return new DatabaseError(fault, `The database ${path} ${words}.`, { cause: error });
}
