import { randomUUIDv7 } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { recordAudit, type Actor } from '../accounts/audit.ts';
import type { Plans } from '../accounts/plans.ts';
import type { AlertsConfig } from '../config/alerts.ts';
import type { Database } from '../database/database.ts';
import { loggable } from '../database/errors.ts';
import type { Log } from '../log.ts';
import { accountOfBudget, budgetConditions, keyConditions } from './account-conditions.ts';
import type { Channels } from './channels.ts';
import { HOST, InstanceConditions, type Observation } from './conditions.ts';
import { Outbox } from './outbox.ts';
import { AlertStore, MAX_FIRING, type Alert, type LocalMessage } from './store.ts';
import { Traffic } from './traffic.ts';
import { conditionOf, type Condition } from './types.ts';

/** Interval between checks, in milliseconds. */
const CHECK_MS = 10_000;
/** Interval at which budgets are checked, old rows deleted, and silences ended. */
const ACCOUNTS_MS = 60_000;
const KEYS_MS = 600_000;
/**
 * An alert is resolved when no instance has found its condition for this time, in milliseconds: long enough for a few
 * failed checks of one instance, and for conditions that come and go.
 */
const RESOLVE_MS = 60_000;
/** How long the database must fail before this is an alert, in milliseconds. */
const OUTAGE_MS = 30_000;
/** Accounts whose budgets one check reads. The others follow with the next ones. */
const ACCOUNTS_PER_CHECK = 2000;
/** How long messages may take when the service stops, in milliseconds. */
const LAST_MS = 2000;

/** Result of a test message. */
export interface TestResult {
  channel: string;
  target: string;
  /** Null: it was sent. */
  error: string | null;
  durationMs: number;
}

export interface AlertsOptions {
  database: Database;
  settings: AlertsConfig;
  channels: Channels;
  plans: Plans;
  /** What this instance sees, except errors and the time. */
  observe: () => Promise<Omit<Observation, 'now' | 'errors'>>;
  log: Log;
  /** Returns Unix milliseconds. Default: the system clock. */
  now?: () => number;
}

/** Messages of this instance, by channel and whether they were sent, for metrics. All addresses are one channel. */
export type SentCounts = ReadonlyMap<string, { sent: number; failed: number }>;

/**
 * Checks what is wrong every 10 seconds, keeps alerts in the database, and sends messages about them. Nothing of this runs
 * while a request waits: requests only increase counters.
 */
export class Alerts implements AsyncDisposable {
  readonly store: AlertStore;
  readonly settings: AlertsConfig;
  readonly channels: Channels;
  readonly #options: AlertsOptions;
  readonly #now: () => number;
  readonly #traffic: Traffic;
  readonly #instance: InstanceConditions;
  readonly #outbox: Outbox;
  readonly #sent = new Map<string, { sent: number; failed: number }>();
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  #checking = false;
  #stopped = false;
  /** Number of firing alerts of all instances at the latest check. */
  #firing = 0;
  /** Conditions of accounts and keys at their latest check. */
  #budgets: Condition[] = [];
  #keys: Condition[] = [];
  /** Accounts whose budgets are to be read. */
  readonly #accounts = new Set<string>();
  #accountsAt = -Infinity;
  #keysAt = -Infinity;
  /** When this instance began to check without a failure; alerts of others are not resolved soon after. */
  #steadySince: number;
  #outage: Outage | null = null;
  /** Silenced types and conditions, for alerts that are sent without the database. */
  #silenced: ReadonlySet<string> = new Set();

  constructor(options: AlertsOptions) {
    const { database, settings, channels, log, now = Date.now } = options;
    this.#options = options;
    this.settings = settings;
    this.channels = channels;
    this.#now = now;
    this.#steadySince = now();
    this.store = new AlertStore(database, now);
    this.#traffic = new Traffic(settings.errorWindowMs);
    this.#instance = new InstanceConditions(settings);
    for (const { id } of channels.all) this.#sent.set(labelOf(id), { sent: 0, failed: 0 });
    this.#outbox = new Outbox({
      store: this.store,
      channels,
      log,
      now,
      onAttempt: (channel, sent) => this.#count(channel, sent),
    });
  }

  /** Starts to check. */
  start(): void {
    void this.check();
    // A check that waits for the database is not followed by a queue of others.
    this.#timer = setInterval(() => {
      if (!this.#checking) void this.check();
    }, CHECK_MS).unref();
  }

  /** Counts a request that has ended. Takes about a microsecond and never throws. */
  recordRequest(...[request]: Parameters<Traffic['record']>): void {
    this.#traffic.record(request);
  }

  /** Number of firing alerts of all instances at the latest check. */
  get firing(): number {
    return this.#firing;
  }

  /** What this instance has sent, by channel. */
  get sent(): SentCounts {
    return this.#sent;
  }

  /** Checks now, and starts to send what is due. Never rejects. Calls wait for the one before. */
  check(): Promise<void> {
    this.#running = this.#running.then(() => this.#check());
    return this.#running;
  }

  /** Waits for the messages that are being sent. */
  async idle(): Promise<void> {
    await this.#running;
    await this.#outbox.idle();
  }

  /** Sends a test message to each channel. Rejects with a `DatabaseError` if the audit log cannot be written. */
  async test(by: Actor): Promise<TestResult[]> {
    const { database } = this.#options;
    await recordAudit(database, by, { action: 'alert.test', subject: 'alerts' });
    return await sendTest(this.channels, (channel, sent) => this.#count(channel, sent));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    this.#outbox.stop();
    const last = new AbortController();
    await Promise.race([
      this.idle(),
      pause(LAST_MS, null, { ref: false, signal: last.signal }).catch(() => {}),
    ]);
    last.abort();
    // Ends the messages that are still being sent.
    await this.channels[Symbol.asyncDispose]();
    await this.#running;
  }

  async #check(): Promise<void> {
    if (this.#stopped) return;
    this.#checking = true;
    try {
      await this.#checkAndStore();
      await this.#outbox.start();
      this.#outage = null;
    } catch (error) {
      await this.#failed(error);
    } finally {
      this.#checking = false;
    }
  }

  async #checkAndStore(): Promise<void> {
    const now = this.#now();
    const { channels, store } = this;
    // First, so that an outage counts as over only if the database can be written.
    const firing = await store.firing();
    await this.#endOutage();
    const conditions = await this.#find(now, new Map(firing.map(({ id, condition }) => [condition, id])));
    const found = new Set(conditions.map(({ key }) => key));
    await store.touch(firing.filter(({ condition }) => found.has(condition)).map(({ id }) => id));
    const known = new Set(firing.map(({ condition }) => condition));
    const ids = channels.all.map(({ id }) => id);
    let count = firing.length;
    for (const condition of conditions) {
      if (known.has(condition.key) || count >= maxFiringWith(condition) || this.#stopped) continue;
      if (!(await store.fire(condition, ids))) continue;
      count++;
      this.#options.log.warn('alert', {
        type: condition.type,
        condition: condition.key,
        title: condition.title,
      });
    }
    if (firing.length > 0 && hasPassed(RESOLVE_MS, this.#steadySince, now)) {
      count -= await store.resolveUnseen(now - RESOLVE_MS);
    }
    this.#firing = count;
  }

  async #find(now: number, firing: ReadonlyMap<string, string>): Promise<Condition[]> {
    const { settings, observe, database, plans } = this.#options;
    const observation = { ...(await observe()), now, errors: this.#traffic.errors() };
    const keys = new Set(firing.keys());
    const own = this.#instance.find(observation, keys);
    for (const id of this.#traffic.takeAccounts()) this.#accounts.add(id);
    if (hasPassed(ACCOUNTS_MS, this.#accountsAt, now)) {
      this.#accountsAt = now;
      this.#silenced = new Set((await this.store.silences()).map(({ target }) => target));
      await this.store.cleanUp(now - settings.keepDays * 86_400_000);
      const alerted = [...keys].flatMap((key) => accountOfBudget(key) ?? []);
      const next = [...this.#accounts].slice(0, ACCOUNTS_PER_CHECK);
      const accounts = [...new Set([...alerted, ...next])];
      this.#budgets = await budgetConditions(database, plans, accounts, this.#traffic, now);
      for (const id of next) this.#accounts.delete(id);
    }
    if (hasPassed(KEYS_MS, this.#keysAt, now)) {
      this.#keys = await keyConditions(database, settings.keyExpiryDays, now);
      this.#keysAt = now;
    }
    return [...own, ...this.#budgets, ...this.#keys].filter(({ type }) => !settings.disabled.includes(type));
  }

  /** Fires an alert in memory if the database has failed for a while. */
  async #failed(error: unknown): Promise<void> {
    const now = this.#now();
    const { settings, log } = this.#options;
    this.#steadySince = now;
    if (this.#outage === null) {
      this.#outage = { since: now, alert: null, messages: [] };
      log.warn('cannot check for alerts; will retry', { error: loggable(error) });
    }
    const outage = this.#outage;
    const isShort = !hasPassed(OUTAGE_MS, outage.since, now);
    if (isShort || settings.disabled.includes('database_unavailable')) return;
    if (outage.alert === null) {
      const reason = error instanceof Error ? error.message : String(error);
      const { key, ...condition } = conditionOf('database_unavailable', HOST, { host: HOST, reason });
      const { title } = condition;
      outage.alert = { ...condition, id: randomUUIDv7(), condition: key, firedAt: now, resolvedAt: null };
      const isSilenced = this.#silenced.has(key) || this.#silenced.has(condition.type);
      outage.messages = this.channels.all.map(({ id: channel }) => ({
        id: randomUUIDv7(),
        channel,
        state: isSilenced ? 'silenced' : 'pending',
        attempts: 0,
        createdAt: now,
        nextAt: now,
        sentAt: null,
        error: null,
      }));
      log.warn('alert', { type: condition.type, condition: key, title });
    }
    await this.#outbox.sendLocal(outage.messages, outage.alert);
  }

  /**
   * Moves an alert about the database into it, when it works again. The alert is then resolved as others are, because its
   * condition is no longer found.
   */
  async #endOutage(): Promise<void> {
    if (!this.#outage?.alert) return;
    const { alert, messages } = this.#outage;
    await this.store.adopt(alert, messages);
    this.#outage = { ...this.#outage, alert: null, messages: [] };
  }

  #count(channel: string, sent: boolean): void {
    const counts = this.#sent.get(labelOf(channel));
    if (counts !== undefined) counts[sent ? 'sent' : 'failed']++;
  }
}

/** Returns the name of a channel in metrics, which contain no addresses of people. */
function labelOf(channel: string): string {
  return channel.startsWith('email:') ? 'email' : channel;
}

/** Whether this time has passed since `since`, or the clock was set back by more than this time. */
function hasPassed(ms: number, since: number, now: number): boolean {
  return Math.abs(now - since) >= ms;
}

/** Firing alerts that budgets and keys, of which there can be many, leave to what is wrong with the service. */
const RESERVED = 200;

/** Returns how many alerts may fire before one for this condition does not. */
function maxFiringWith({ type }: Condition): number {
  const isOfAccount = type === 'budget_80' || type === 'budget_100' || type === 'key_expiring';
  return isOfAccount ? MAX_FIRING - RESERVED : MAX_FIRING;
}

/** A time in which the database cannot be used. */
interface Outage {
  /** Unix milliseconds. */
  since: number;
  /** Null until the outage has lasted for `OUTAGE_MS`. */
  alert: Alert | null;
  messages: LocalMessage[];
}

/** Sends a test message to each channel, at the same time. Never rejects. */
export async function sendTest(
  { all }: Pick<Channels, 'all'>,
  onAttempt: (channel: string, sent: boolean) => void = () => {},
): Promise<TestResult[]> {
  return await Promise.all(
    all.map(async (channel): Promise<TestResult> => {
      const startedAt = performance.now();
      const result = (error: string | null) => {
        onAttempt(channel.id, error === null);
        const { id, target } = channel;
        return { channel: id, target, error, durationMs: Math.round(performance.now() - startedAt) };
      };
      try {
        await channel.send({ id: randomUUIDv7(), event: 'test', alert: null });
        return result(null);
      } catch (error) {
        return result(error instanceof Error ? error.message : String(error));
      }
    }),
  );
}
