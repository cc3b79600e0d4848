/** What is wrong with the database: for operators, and for deciding whether to wait or to stop. */
export type DatabaseFault =
  /** The server cannot be reached, does not answer, or takes no connection now. */
  | 'away'
  /** The file, its folder or the server's database cannot be opened or written. */
  | 'unwritable'
  /** The file is there and is something else, or is damaged. */
  | 'not_a_database'
  /** Another service runs on this data directory. */
  | 'in_use'
  /** A file of the database was deleted, moved or replaced while it was open. */
  | 'replaced'
  /** A later version of the program has changed the tables. */
  | 'newer_schema'
  /** No space is left on the device. */
  | 'full'
  /** Others held the database longer than the wait allowed. */
  | 'busy'
  /** Anything else the database reported; the cause has it. */
  | 'failed';

/** A fault of the database. The message names it and what to do; it is for operators, not for callers. */
export class DatabaseError extends Error {
  readonly fault: DatabaseFault;

  constructor(fault: DatabaseFault, message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.name = 'DatabaseError';
    this.fault = fault;
  }
}

type Words = readonly [DatabaseFault, string];

/** Primary result codes of SQLite (https://sqlite.org/rescode.html) that an operator can do something about. */
const SQLITE: ReadonlyMap<number, Words> = new Map([
  [3, ['unwritable', 'cannot be read or written: check its owner and permissions']],
  [5, ['busy', 'is locked by another process']],
  [6, ['busy', 'is locked by another process']],
  [8, ['unwritable', 'is not writable: check its owner and permissions, and whether the disk is read-only']],
  [10, ['unwritable', 'failed to read from or write to the disk']],
  [
    11,
    ['not_a_database', 'is damaged: restore a backup, or move the file away to start with a new database'],
  ],
  [13, ['full', 'cannot grow: the disk is full']],
  [
    14,
    ['unwritable', 'cannot be opened: check that its directory exists and that this user may write to it'],
  ],
  [
    26,
    [
      'not_a_database',
      'is not a SQLite database: move the file away, or set SLUICE_HOME to another directory',
    ],
  ],
]);

/** Turns an error of `node:sqlite` into a `DatabaseError` that names the file; other errors pass unchanged. */
export function asDatabaseError(error: unknown, path: string): unknown {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return error;
  const [fault, words] = SQLITE.get(error.errcode & 0xff) ?? ['failed', `failed: ${error.message}`];
  return new DatabaseError(fault, `The database ${path} ${words}.`, { cause: error });
}

const CREDENTIALS: Words = ['unwritable', 'refused the user name or password: check SLUICE_DATABASE_URL'];
const LOCKED: Words = ['busy', 'is locked by other connections'];

/** SQLSTATEs (https://www.postgresql.org/docs/current/errcodes-appendix.html), by code or by their class. */
const POSTGRES: ReadonlyMap<string, Words> = new Map([
  ['08', ['away', 'closed the connection']],
  ['28', CREDENTIALS],
  ['53', ['failed', 'is out of memory or another resource']],
  ['57P', ['away', 'is starting, stopping or recovering']],
  ['25006', ['unwritable', 'is read-only: the server is a standby, or is configured as read-only']],
  ['3D000', ['unwritable', 'does not exist: create it, or check SLUICE_DATABASE_URL']],
  ['40001', LOCKED],
  ['40P01', LOCKED],
  ['42501', ['unwritable', 'denied permission: grant it to the user, or check SLUICE_DATABASE_URL']],
  ['53100', ['full', 'cannot grow: the disk of its server is full']],
  ['53300', ['away', 'has no free connections']],
  ['55P03', LOCKED],
  ['57014', ['busy', 'canceled a statement because of a timeout']],
  ['57P04', ['unwritable', 'was dropped']],
]);

/** What `pg` says in words alone when the server does not answer, or no connection became free in time. */
const SILENT = /timeout|terminated|connection error|not queryable/i;

/**
 * Turns an error of `pg`, or of the connection under it, into a `DatabaseError` that names the database as `name`;
 * other errors pass unchanged.
 */
export function asPostgresError(error: unknown, name: string): unknown {
  if (!(error instanceof Error) || error instanceof DatabaseError) return error;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const [fault, words] = wordsFor(error, code) ?? [];
  if (fault === undefined) return error;
  return new DatabaseError(fault, `The database ${name} ${words}.`, { cause: error });
}

function wordsFor(error: Error, code: string): Words | undefined {
  // Only what the server itself reports has a severity.
  if ('severity' in error) {
    return (
      POSTGRES.get(code) ??
      POSTGRES.get(code.slice(0, 3)) ??
      POSTGRES.get(code.slice(0, 2)) ?? ['failed', `failed: ${error.message}`]
    );
  }
  if (/^E[A-Z]|_TLS_|CERT/.test(code) && !code.startsWith('ERR_INVALID')) {
    return ['away', `cannot be reached (${code})`];
  }
  if (SILENT.test(error.message)) return ['away', `does not respond (${error.message})`];
  return undefined;
}
