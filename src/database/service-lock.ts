import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isLocked, tryLock } from '../support/file-lock.ts';
import { convertingErrors, DatabaseError } from './errors.ts';
import type { OpenFile } from './sqlite-files.ts';
import { messageOf } from '../support/thrown.ts';

/** The content of `service.json`: the service that runs on a data directory. */
export interface RunningService {
  pid: number;
  /** Name of its host or container. The process ID is only valid there. */
  host: string;
  /** ISO 8601. */
  startedAt: string;
  /** The URL that callers use, without `/v1`; null before it listens. */
  url: string | null;
  /** The files of its database; empty before it listens. */
  files: readonly OpenFile[];
}

/** How long `take` retries, because a command that checks for a running service can hold the lock for a moment. */
const TRY_MS = 1000;
const PAUSE_MS = 20;

/**
 * The lock of the one service that may use a data directory with SQLite. Two services would count limits separately.
 * The operating system releases the lock when the process ends, so a killed service does not block the next one.
 * `database restore` also takes it, so that no service can start during a restore.
 */
export class ServiceLock implements Disposable {
  readonly #lock: Disposable;
  readonly #path: string;
  readonly #service: RunningService;

  private constructor(lock: Disposable, home: string) {
    this.#lock = lock;
    this.#path = detailsPath(home);
    this.#service = {
      pid: process.pid,
      host: hostname(),
      startedAt: new Date().toISOString(),
      url: null,
      files: [],
    };
  }

  /**
   * Takes the lock of an existing directory. Rejects with a `DatabaseError`: `in_use` if another service holds the
   * lock.
   */
  static async take(home: string): Promise<ServiceLock> {
    const path = lockPath(home);
    const deadline = performance.now() + TRY_MS;
    for (;;) {
      const lock = convertingErrors(path, () => tryLock(path));
      if (lock !== null) {
        using owned = new DisposableStack();
        const serviceLock = owned.use(new ServiceLock(lock, home));
        serviceLock.#write();
        owned.move();
        return serviceLock;
      }
      if (performance.now() > deadline) throw inUse(home);
      await pause(PAUSE_MS);
    }
  }

  /** Records the URL that callers use and which files the service has open. Throws a `DatabaseError`. */
  listening(url: string, files: readonly OpenFile[]): void {
    this.#service.url = url;
    this.#service.files = files;
    this.#write();
  }

  [Symbol.dispose](): void {
    rmSync(this.#path, { force: true });
    this.#lock[Symbol.dispose]();
  }

  /** Replaces the file atomically, because others may read it at any time. */
  #write(): void {
    const partial = `${this.#path}.partial`;
    try {
      writeFileSync(partial, `${JSON.stringify(this.#service)}\n`, { mode: 0o600 });
      renameSync(partial, this.#path);
    } catch (error) {
      const reason = messageOf(error);
      throw new DatabaseError('unwritable', `Cannot write the file ${this.#path} (${reason}).`, {
        cause: error,
      });
    }
  }
}

/**
 * Returns the service that runs on a data directory with SQLite. Returns null if there is none, or if its details
 * cannot be read.
 */
export function runningService(home: string): RunningService | null {
  const path = lockPath(home);
  return convertingErrors(path, () => isLocked(path)) ? readDetails(home) : null;
}

export function describeService({ pid, host, startedAt, url }: RunningService): string {
  const where = host === hostname() ? '' : ` on host ${host}`;
  return `process ${pid}${where}, ${url ?? 'not listening yet'}, started ${startedAt}`;
}

function inUse(home: string): DatabaseError {
  const service = readDetails(home);
  return new DatabaseError(
    'in_use',
    `Another service is running on the data directory ${home}${service === null ? '' : `: ${describeService(service)}`}.
Stop it, or set SLUICE_HOME to another directory. Several instances of the service need PostgreSQL: docs/databases.md.`,
  );
}

function lockPath(home: string): string {
  return join(home, 'service.lock');
}

/**
 * The details are in a separate file, because a process loses its POSIX lock on a file when it closes any descriptor of
 * that file.
 */
function detailsPath(home: string): string {
  return join(home, 'service.json');
}

/** Returns null if the file cannot be read. */
function readDetails(home: string): RunningService | null {
  try {
    // Only `ServiceLock` writes this file.
    return JSON.parse(readFileSync(detailsPath(home), 'utf8')) as RunningService;
  } catch {
    return null;
  }
}
