import { asError } from '../support/thrown.ts';

/** The kind of a database error, for operators and for deciding whether to wait or to stop. */
export type DatabaseFault =
  /** The server is unreachable, does not respond, or accepts no connections. */
  | 'unavailable'
  /** The file, its folder or the server's database cannot be opened or written. */
  | 'unwritable'
  /** The file is not a SQLite database, or is damaged. */
  | 'not_a_database'
  /** Another service runs on this data directory. */
  | 'in_use'
  /** A file of the database was deleted, moved or replaced while it was open. */
  | 'replaced'
  /** A newer version of Sluice has migrated the tables. */
  | 'newer_schema'
  /** An earlier version of Sluice has migrated the tables, and the caller does not migrate them. */
  | 'older_schema'
  /** The key that encrypts secrets in the database is missing, or an encrypted secret is damaged. */
  | 'secret_key'
  /** No space is left on the device. */
  | 'full'
  /** The database was still locked when the timeout expired. */
  | 'busy'
  /** A concurrent change created a row with the same unique value, or deleted a row that the new one refers to. */
  | 'conflict'
  /** Any other error of the database; see the `cause`. */
  | 'failed';

/** An error of the database. The message tells operators what to do, and must not be sent to callers. */
export class DatabaseError extends Error {
  readonly fault: DatabaseFault;

  constructor(fault: DatabaseFault, message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.name = 'DatabaseError';
    this.fault = fault;
  }
}

/** Returns the message of a `DatabaseError`, which is complete without a stack; other errors unchanged, to be logged with one. */
export function loggable(error: unknown): string | Error {
  if (error instanceof DatabaseError) return error.message;
  return asError(error);
}

type FaultText = readonly [DatabaseFault, string];

const CONFLICT: FaultText = ['conflict', 'refused a change that conflicts with another row'];

const FULL: FaultText = ['full', 'cannot grow: the disk is full'];

/** Result codes of SQLite (https://sqlite.org/rescode.html), extended or primary, that are not `failed`. */
const SQLITE_FAULTS: ReadonlyMap<number, FaultText> = new Map([
  [3, ['unwritable', 'cannot be read or written: check its owner and permissions']],
  [5, ['busy', 'is locked by another connection']],
  [6, ['busy', 'is locked by another connection']],
  [8, ['unwritable', 'is not writable: check its owner and permissions, and whether the disk is read-only']],
  [10, ['unwritable', 'failed to read from or write to the disk']],
  [
    11,
    ['not_a_database', 'is damaged: restore a backup, or move the file away to start with a new database'],
  ],
  [13, FULL],
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
  // Extended code: no space for the shared memory that opening a database needs.
  [4874, FULL],
  // Extended codes: foreign keys, primary keys and unique constraints.
  [787, CONFLICT],
  [1555, CONFLICT],
  [2067, CONFLICT],
]);

/** Converts an error of `node:sqlite` to a `DatabaseError` that names the file. Returns other errors unchanged. */
export function asDatabaseError(error: unknown, path: string): unknown {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return error;
  const [fault, words] = SQLITE_FAULTS.get(error.errcode) ??
    SQLITE_FAULTS.get(error.errcode & 0xff) ?? ['failed', `failed: ${error.message}`];
  return new DatabaseError(fault, `The database ${path} ${words}.`, { cause: error });
}

/** Returns the result code of SQLite in the cause of a `DatabaseError`; null: there is none. */
export function sqliteCode({ cause }: DatabaseError): number | null {
  const code = typeof cause === 'object' && cause !== null && 'errcode' in cause ? cause.errcode : null;
  return typeof code === 'number' ? code : null;
}

/** Runs SQLite calls and converts their errors with `asDatabaseError`. */
export function convertingErrors<T>(path: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw asDatabaseError(error, path);
  }
}

const CREDENTIALS: FaultText = ['unwritable', 'refused the user name or password: check SLUICE_DATABASE_URL'];
const LOCKED: FaultText = ['busy', 'is locked by other connections'];

/** SQLSTATEs (https://www.postgresql.org/docs/current/errcodes-appendix.html), by code or class. */
const POSTGRES_FAULTS: ReadonlyMap<string, FaultText> = new Map([
  ['08', ['unavailable', 'closed the connection']],
  ['28', CREDENTIALS],
  ['53', ['failed', 'is out of memory or another resource']],
  ['57P', ['unavailable', 'is starting, stopping or recovering']],
  ['23503', CONFLICT],
  ['23505', CONFLICT],
  ['25006', ['unwritable', 'is read-only: the server is a standby, or is configured as read-only']],
  ['3D000', ['unwritable', 'does not exist: create it, or check SLUICE_DATABASE_URL']],
  ['40001', LOCKED],
  ['40P01', LOCKED],
  ['42501', ['unwritable', 'denied permission: grant it to the user, or check SLUICE_DATABASE_URL']],
  ['53100', ['full', 'cannot grow: the disk of its server is full']],
  ['53300', ['unavailable', 'has no free connections']],
  ['55P03', LOCKED],
  ['57014', ['busy', 'canceled a statement because of a timeout']],
  ['57P04', ['unwritable', 'was dropped']],
]);

/**
 * Messages of `pg` errors that have no code. They mean that the server does not respond, or that no connection became
 * free in time.
 */
const NO_RESPONSE = /timeout|no response|terminated|connection error|not queryable/i;

/** Converts an error of `pg` to a `DatabaseError` that names the database. Returns other errors unchanged. */
export function asPostgresError(error: unknown, name: string): unknown {
  if (!(error instanceof Error) || error instanceof DatabaseError) return error;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const [fault, words] = faultOf(error, code) ?? [];
  if (fault === undefined) return error;
  return new DatabaseError(fault, `The database ${name} ${words}.`, { cause: error });
}

function faultOf(error: Error, code: string): FaultText | undefined {
  // Only errors from the server have a severity.
  if ('severity' in error) {
    return (
      POSTGRES_FAULTS.get(code) ??
      POSTGRES_FAULTS.get(code.slice(0, 3)) ??
      POSTGRES_FAULTS.get(code.slice(0, 2)) ?? ['failed', `failed: ${error.message}`]
    );
  }
  if (/^E[A-Z]|_TLS_|CERT/.test(code) && !code.startsWith('ERR_INVALID')) {
    return ['unavailable', `cannot be reached (${code})`];
  }
  if (NO_RESPONSE.test(error.message)) return ['unavailable', `does not respond (${error.message})`];
  return undefined;
}
