import { hostname } from 'node:os';
import type { LedgerHealth } from '../accounts/ledger/ledger.ts';
import type { AlertsConfig } from '../config/alerts.ts';
import type { BackupStatus } from '../database/scheduled-backups.ts';
import type { ReplicaOverview } from '../routing/served-model.ts';
import type { Findings } from './finder.ts';
import type { ErrorCount } from './traffic.ts';
import { conditionOf, type Condition } from '../core/alert-types.ts';

/** What an instance sees of itself. */
export interface Observation {
  /** Unix milliseconds. */
  now: number;
  /** When the instance was started, in Unix milliseconds. */
  startedAt: number;
  /** The data directory. */
  home: string;
  /** On its disk; null: unknown. */
  freeBytes: number | null;
  replicas: readonly ReplicaView[];
  ledger: LedgerHealth;
  /** Null: no backups are scheduled. */
  backup: Omit<BackupStatus, 'keep'> | null;
  errors: readonly ErrorCount[];
}

export type ReplicaView = Pick<
  ReplicaOverview,
  'model' | 'name' | 'address' | 'state' | 'failing' | 'lastCrash'
>;

/** A crash is over after this time without another one, in milliseconds. */
const CRASH_MS = 600_000;
/** How long the ledger must be unwritable, in milliseconds. */
const LEDGER_MS = 30_000;
/** How late a backup may be, in milliseconds. */
const BACKUP_LATE_MS = 3_600_000;
const HOUR_MS = 3_600_000;

/** Identifies this machine or container, also after a restart. */
export const HOST = hostname();

/**
 * Finds what is wrong with this instance and its replicas. Remembers only since when replicas are down, and forgets it when
 * it is restarted. So a bound of time is for an alert that begins. One that fires stays until its condition is over.
 */
export class InstanceConditions {
  readonly #settings: AlertsConfig;
  /** When replicas went down, in Unix milliseconds, by condition. */
  #downSince = new Map<string, number>();

  constructor(settings: AlertsConfig) {
    this.#settings = settings;
  }

  /** `firing`: the conditions of the alerts that are firing on any instance. */
  find(seen: Observation, firing: ReadonlySet<string>): Findings {
    const found = [
      ...this.#errorRates(seen),
      ...this.#replicas(seen, firing),
      ...crashes(seen),
      ...this.#disk(seen),
      ...ledger(seen, firing),
      ...backup(seen, firing),
    ];
    return { found, kept: [...firing].filter((key) => this.#cannotJudge(seen, key)) };
  }

  #cannotJudge({ now, startedAt, freeBytes }: Observation, key: string): boolean {
    if (key === `disk_low:${HOST}`) return freeBytes === null;
    // An instance that was just started has not counted enough requests.
    return key.startsWith('error_rate:') && now - startedAt < this.#settings.errorWindowMs;
  }

  #errorRates({ errors }: Observation): Condition[] {
    const { errorShare, errorMinRequests, errorWindowMs } = this.#settings;
    const failing = errors.filter(
      ({ failed, requests }) => requests >= errorMinRequests && failed >= errorShare * requests,
    );
    // If all failures are of models that are reported, the service is not reported as well.
    const inModels = failing.reduce((sum, { model, failed }) => sum + (model === null ? 0 : failed), 0);
    return failing
      .filter(({ model, failed }) => model !== null || failed > inModels)
      .map((count) =>
        conditionOf('error_rate', count.model ?? 'service', { ...count, windowMs: errorWindowMs }),
      );
  }

  #replicas({ now, replicas }: Observation, firing: ReadonlySet<string>): Condition[] {
    const downSince = new Map<string, number>();
    const found = replicas.flatMap((replica) => {
      const { model, name, address, state } = replica;
      // Instances share a server, but each has its own engines.
      const subject = `${model}:${address ?? `${HOST}:${name}`}`;
      const condition = (reason: string) =>
        conditionOf('replica_down', subject, {
          model,
          replica: address === null ? `${name} on ${HOST}` : name,
          reason,
        });
      const reason = downReason(replica);
      const before = this.#downSince.get(subject);
      // The clock may have been set back.
      const since = before && Math.min(before, now);
      if (reason !== null) {
        downSince.set(subject, since ?? now);
        const down = condition(reason);
        const isLong = now - (since ?? now) >= this.#settings.replicaDownMs;
        return isLong || firing.has(down.key) ? [down] : [];
      }
      // A replica that is being loaded again is not back yet, and may crash again.
      if (state.state !== 'loading' && state.state !== 'downloading') return [];
      if (since !== undefined) downSince.set(subject, since);
      const still = condition(state.state);
      return firing.has(still.key) ? [still] : [];
    });
    this.#downSince = downSince;
    return found;
  }

  #disk({ home, freeBytes }: Observation): Condition[] {
    if (freeBytes === null || freeBytes >= this.#settings.diskFreeBytes) return [];
    return [conditionOf('disk_low', HOST, { host: HOST, directory: home, freeBytes })];
  }
}

/** Returns why a replica is down; null: it is not. A server that limits the rate of requests is not down. */
function downReason({ state, failing }: ReplicaView): string | null {
  if (state.state === 'down') return state.reason;
  return state.state === 'paused' && failing ? state.reason : null;
}

function crashes({ now, replicas }: Observation): Condition[] {
  return replicas.flatMap(({ model, name, lastCrash }) =>
    lastCrash === null || now - lastCrash.at > CRASH_MS
      ? []
      : [conditionOf('engine_crashed', `${HOST}:${name}`, { model, host: HOST, reason: lastCrash.reason })],
  );
}

function ledger({ ledger: health }: Observation, firing: ReadonlySet<string>): Condition[] {
  if (health.writable) return [];
  const condition = conditionOf('ledger_unwritable', HOST, { host: HOST, reason: health.reason });
  return health.sinceMs >= LEDGER_MS || firing.has(condition.key) ? [condition] : [];
}

function backup({ now, startedAt, backup: status }: Observation, firing: ReadonlySet<string>): Condition[] {
  if (status === null) return [];
  const { everyHours, lastAt, failedAt, reason } = status;
  const lateMs = now - ((lastAt ?? 0) + everyHours * HOUR_MS);
  // After a restart, the next attempt shows whether it still fails.
  const failed = conditionOf('backup_failed', HOST, { host: HOST, reason: reason ?? 'unknown' });
  if (failedAt !== null || (lateMs >= 0 && firing.has(failed.key))) return [failed];
  if (lateMs <= BACKUP_LATE_MS) return [];
  const late = conditionOf('backup_late', HOST, { host: HOST, everyHours, lastAt });
  // The first backup after a start is due at once, and may take this long.
  return now - startedAt > BACKUP_LATE_MS || firing.has(late.key) ? [late] : [];
}
