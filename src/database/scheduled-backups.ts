import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { BackupConfig, Config } from '../config/schema.ts';
import { tryLock } from '../support/file-lock.ts';
import type { Log } from '../support/log.ts';
import { backupPostgres, backupSqlite } from './backup.ts';
import type { Database } from './database.ts';
import { assertInPlace } from './sqlite-files.ts';
import { messageOf } from '../support/thrown.ts';

/** Names of backups, with the time at which they were started. */
const NAME = /^sluice-(\d{4}-\d{2}-\d{2})T(\d{2})-(\d{2})-(\d{2})Z\.db$/;

/** Names of the files of a backup that was not completed. */
const PARTIAL = /^sluice-[\dT-]+Z\.db\.[\da-f]{8}\.partial/;

/** Locked while an instance makes a backup in the directory. */
const LOCK = '.lock';

const HOUR_MS = 3_600_000;
/**
 * Interval between checks whether a backup is due, in milliseconds. Also the delay before a failed backup is retried.
 */
const CHECK_MS = 300_000;

export interface BackupStatus {
  everyHours: number;
  keep: number;
  /** When the latest backup in the directory was started, in Unix milliseconds; null: none. */
  lastAt: number | null;
  /** When the latest attempt failed, in Unix milliseconds; null: it succeeded, or no backup is due. */
  failedAt: number | null;
  /** Why it failed; null: see `failedAt`. */
  reason: string | null;
}

interface ScheduledBackupsOptions {
  location: Database['location'];
  directory: string;
  settings: BackupConfig;
  log: Log;
  /** Returns the time in Unix milliseconds. Default: the system clock. */
  now?: () => number;
}

/**
 * Backs up the database regularly and deletes old backups. The file names in the directory determine when a backup is
 * due, and a lock in it keeps instances that share it from making the same one.
 */
export class ScheduledBackups implements AsyncDisposable {
  readonly #options: ScheduledBackupsOptions;
  readonly #status: BackupStatus;
  readonly #stop = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #running: Promise<void> = Promise.resolve();

  /** Returns the scheduled backups of a configuration; null: none are configured. */
  static open({ file, home }: Config, { location }: Database, log: Log): ScheduledBackups | null {
    const settings = file.backup;
    if (settings === undefined) return null;
    const directory = settings.directory ?? join(home, 'backups');
    return new ScheduledBackups({ location, directory, settings, log });
  }

  constructor(options: ScheduledBackupsOptions) {
    const { everyHours, keep } = options.settings;
    this.#options = options;
    this.#status = { everyHours, keep, lastAt: null, failedAt: null, reason: null };
    this.#timer = setInterval(() => void this.runIfDue(), CHECK_MS).unref();
  }

  get status(): Readonly<BackupStatus> {
    return this.#status;
  }

  /** Makes a backup if the latest one is older than `everyHours`. Failures are logged and are in the status. */
  runIfDue(): Promise<void> {
    this.#running = this.#running.then(() => this.#runIfDue());
    return this.#running;
  }

  /** Interrupts a running backup. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    this.#stop.abort(new Error('the service is stopping'));
    await this.#running;
  }

  async #runIfDue(): Promise<void> {
    if (this.#stop.signal.aborted) return;
    const { directory, settings, log, now = Date.now } = this.#options;
    const startedAt = now();
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      if (!(await this.#isDue(startedAt))) return;
      using lock = tryLock(join(directory, LOCK));
      // Another instance has made the backup, or is making it.
      if (lock === null || !(await this.#isDue(startedAt))) return;
      await this.#deleteFiles((name) => PARTIAL.test(name));
      const file = join(directory, nameAt(startedAt));
      await this.#backup(file);
      Object.assign(this.#status, { lastAt: startedAt, failedAt: null, reason: null });
      log.info('database backed up', { file });
      const existing = await listBackups(directory, startedAt);
      const future = existing.filter((one) => isFuture(one, startedAt)).map(({ name }) => name);
      if (future.length > 0) log.warn('backups with a future time are deleted first', { directory, future });
      const old = new Set(
        existing.slice(0, Math.max(0, existing.length - settings.keep)).map(({ name }) => name),
      );
      await this.#deleteFiles((name) => old.has(name));
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      const reason = messageOf(error);
      Object.assign(this.#status, { failedAt: startedAt, reason });
      log.error('the scheduled backup failed; will retry in 5 minutes', { directory, error: reason });
    }
  }

  /** Whether a backup is due. Reads the directory each time, because other instances may use it. */
  async #isDue(now: number): Promise<boolean> {
    const { directory, settings } = this.#options;
    const latest = (await listBackups(directory, now)).at(-1);
    const lastAt = latest === undefined || isFuture(latest, now) ? null : latest.at;
    this.#status.lastAt = lastAt;
    if (lastAt === null || now - lastAt >= settings.everyHours * HOUR_MS) return true;
    // Another instance has succeeded since this one failed.
    Object.assign(this.#status, { failedAt: null, reason: null });
    return false;
  }

  async #deleteFiles(isOld: (name: string) => boolean): Promise<void> {
    const { directory } = this.#options;
    for (const name of await readdir(directory))
      if (isOld(name)) await rm(join(directory, name), { force: true });
  }

  async #backup(file: string): Promise<void> {
    const { location } = this.#options;
    const { signal } = this.#stop;
    if (location.kind === 'sqlite') {
      assertInPlace(location.files);
      await backupSqlite(location.path, file, { signal });
    } else await backupPostgres(location.url, file, { signal });
  }
}

interface Backup {
  name: string;
  /** Unix milliseconds. */
  at: number;
}

/**
 * Returns the backups in a directory, oldest first. Those with a future time come first: they were made before the clock
 * was corrected, so they must neither delay the next backup nor outlive it.
 */
async function listBackups(directory: string, now: number): Promise<Backup[]> {
  const backups = (await readdir(directory)).toSorted().flatMap((name) => {
    const [, day, hour, minute, second] = NAME.exec(name) ?? [];
    return day === undefined ? [] : [{ name, at: Date.parse(`${day}T${hour}:${minute}:${second}Z`) }];
  });
  const { future = [], past = [] } = Object.groupBy(backups, (one) =>
    isFuture(one, now) ? 'future' : 'past',
  );
  return [...future, ...past];
}

/** The clocks of instances that share a directory may differ a little. */
function isFuture({ at }: Backup, now: number): boolean {
  return at > now + CHECK_MS;
}

function nameAt(atMs: number): string {
  return `sluice-${new Date(atMs).toISOString().slice(0, 19).replaceAll(':', '-')}Z.db`;
}
