import { randomUUIDv7 } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import { recordAudit, type Actor } from '../accounts/audit.ts';
import type { Plans } from '../accounts/plans.ts';
import type { AlertsConfig } from '../config/alerts.ts';
import type { Database } from '../database/database.ts';
import { DatabaseError, loggable } from '../database/errors.ts';
import type { Log } from '../support/log.ts';
import { accountOfBudget, budgetConditions, keyConditions } from './account-conditions.ts';
import type { Channel, Channels } from './channels.ts';
import { HOST, InstanceConditions, type Observation } from './conditions.ts';
import { Finder, hasPassed } from './finder.ts';
import { readOutage, writeOutage } from './outage-file.ts';
import { Outbox } from './outbox.ts';
import { AlertStore, RESOLVE_MS, type SentOutage, type Silence } from './store.ts';
import { Traffic } from './traffic.ts';
import { conditionOf } from '../core/alert-types.ts';
import { messageOf } from '../support/thrown.ts';

/** Interval between checks, in milliseconds. */
const CHECK_MS = 10_000;
const BUDGETS_MS = 60_000;
const KEYS_MS = 600_000;
/** Interval at which old rows are deleted, in milliseconds. */
const CLEAN_UP_MS = 60_000;
/** How long the database must fail before this is an alert, in milliseconds. */
const OUTAGE_MS = 30_000;
/** Accounts whose budgets one check reads. The others follow with the next ones. */
const ACCOUNTS_PER_CHECK = 2000;
/** How long messages may take when the service stops, in milliseconds. */
const LAST_MS = 2000;
/** How long a test message may take, in milliseconds. */
const TEST_MS = 20_000;

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
  /** The data directory. */
  home: string;
  /** The clock of this instance, in Unix milliseconds. Default: the system clock. */
  now?: () => number;
  /** Replaces the clock of the database, in Unix milliseconds. */
  databaseNow?: () => number;
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
  #hasChecked = false;
  #stopped = false;
  /** Number of firing alerts of all instances at the latest check. */
  #firing = 0;
  readonly #finders: readonly Finder[];
  /** Accounts whose budgets are to be read. */
  readonly #accounts = new Set<string>();
  #cleanedUpAt = -Infinity;
  /** When this instance began to check without a failure; alerts of others are not resolved soon after. */
  #steadySince: number;
  /** Null: the latest check worked. */
  #outage: Outage | null = null;
  /** Whether the alert of an earlier outage of this instance was firing at the latest check that worked. */
  #outageFires = false;
  /** For alerts that are sent without the database. */
  #silences: readonly Silence[] = [];

  constructor(options: AlertsOptions) {
    const { database, settings, channels, log, now = Date.now, databaseNow } = options;
    this.#options = options;
    this.settings = settings;
    this.channels = channels;
    this.#now = now;
    this.#steadySince = now();
    this.store = new AlertStore(database, databaseNow);
    this.#traffic = new Traffic(settings.errorWindowMs);
    this.#instance = new InstanceConditions(settings);
    this.#finders = this.#createFinders();
    for (const { label } of channels.all) this.#sent.set(label, { sent: 0, failed: 0 });
    this.#outbox = new Outbox({
      store: this.store,
      channels,
      log,
      now,
      onAttempt: (channel, sent) => this.#count(channel, sent),
    });
  }

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
    this.#outage ??= await this.#outageBefore();
    try {
      await this.#findAndRecord();
      await this.#outbox.start();
    } catch (error) {
      await this.#failed(error);
    } finally {
      this.#checking = false;
    }
  }

  /** Returns the outage in which this instance was stopped or killed before its first check, if there was one. */
  async #outageBefore(): Promise<Outage | null> {
    if (this.#hasChecked) return null;
    this.#hasChecked = true;
    const { home, log } = this.#options;
    const sent = await readOutage(home).catch((error: unknown) => {
      log.warn('cannot read the alert about the database', { error: loggable(error) });
      return null;
    });
    return sent && { since: sent.alert.firedAt, sent };
  }

  async #findAndRecord(): Promise<void> {
    const now = this.#now();
    const { settings, channels, log } = this.#options;
    const firing = new Set(await this.store.firing());
    const findings = await Promise.all(this.#finders.map((finder) => finder.find(now, firing)));
    const kept = new Set(findings.flatMap((each) => each.kept));
    // The outage of this instance ends only when a check has worked again.
    if (this.#outage !== null) kept.add(OUTAGE);
    const outage = this.#outage?.sent ?? null;
    const recorded = await this.store.record({
      found: findings.flatMap(({ found }) => found).filter(({ type }) => !settings.disabled.includes(type)),
      kept,
      outage,
      resolves: hasPassed(RESOLVE_MS, this.#steadySince, now),
      channelsFor: (condition) => channels.idsFor(condition),
    });
    this.#outage = null;
    if (outage !== null) await this.#keep(null);
    this.#outageFires = recorded.firing.includes(OUTAGE);
    this.#firing = recorded.firing.length;
    this.#silences = recorded.silences;
    for (const { type, key, title } of recorded.fired) log.warn('alert', { type, condition: key, title });
    if (hasPassed(CLEAN_UP_MS, this.#cleanedUpAt, now)) {
      await this.store.cleanUp(settings.keepDays * 86_400_000);
      this.#cleanedUpAt = now;
    }
  }

  #createFinders(): Finder[] {
    const { settings, observe, database, plans, log } = this.#options;
    const isBudget = (type: string) => type === 'budget_80' || type === 'budget_100';
    const isKey = (type: string) => type === 'key_expiring';
    return [
      new Finder({
        name: 'instance',
        everyMs: 0,
        covers: (type) => !isBudget(type) && !isKey(type),
        search: async (now, firing) =>
          this.#instance.find({ ...(await observe()), now, errors: this.#traffic.errors() }, firing),
        log,
      }),
      new Finder({
        name: 'budgets',
        everyMs: BUDGETS_MS,
        covers: isBudget,
        search: async (now, firing) => {
          for (const id of this.#traffic.takeAccounts()) this.#accounts.add(id);
          const alerted = [...firing].flatMap((key) => accountOfBudget(key) ?? []);
          const next = [...this.#accounts].slice(0, ACCOUNTS_PER_CHECK);
          const accounts = [...new Set([...alerted, ...next])];
          const found = await budgetConditions(database, plans, accounts, now);
          for (const id of next) this.#accounts.delete(id);
          return { found, kept: [] };
        },
        log,
      }),
      new Finder({
        name: 'keys',
        everyMs: KEYS_MS,
        covers: isKey,
        search: async (now) => ({
          found: await keyConditions(database, settings.keyExpiryDays, now),
          kept: [],
        }),
        log,
      }),
    ];
  }

  /** Fires an alert in memory if the database has failed for a while. */
  async #failed(error: unknown): Promise<void> {
    const now = this.#now();
    const { settings, log } = this.#options;
    this.#steadySince = now;
    if (this.#outage === null) {
      this.#outage = { since: now, sent: null };
      log.warn('cannot check for alerts; will retry', { error: loggable(error) });
    }
    const outage = this.#outage;
    // If the alert of an earlier outage fires, it is the alert of this one, too, until other instances have resolved it.
    const isLong = hasPassed(this.#outageFires ? RESOLVE_MS : OUTAGE_MS, outage.since, now);
    if (outage.sent === null) {
      if (!isLong || !(error instanceof DatabaseError) || settings.disabled.includes('database_unavailable'))
        return;
      outage.sent = this.#fireOutage(error.message, now);
    }
    const { alert, messages } = outage.sent;
    const isSilenced = this.#silences.some(
      ({ target, until }) => until > now && (target === alert.type || target === alert.condition),
    );
    const due = messages.filter(
      ({ state, nextAt, attempts }) => state === 'pending' && nextAt <= now && (attempts > 0 || !isSilenced),
    );
    if (due.length === 0) return;
    await this.#keep(outage.sent);
    await this.#outbox.sendLocal(due, alert);
    await this.#keep(outage.sent);
  }

  async #keep(outage: SentOutage | null): Promise<void> {
    try {
      await writeOutage(this.#options.home, outage);
    } catch (error) {
      this.#options.log.warn('cannot write the alert about the database', { error: loggable(error) });
    }
  }

  #fireOutage(reason: string, now: number): SentOutage {
    const { key, ...condition } = conditionOf('database_unavailable', HOST, { host: HOST, reason });
    this.#options.log.warn('alert', { type: condition.type, condition: key, title: condition.title });
    return {
      alert: { ...condition, id: randomUUIDv7(), condition: key, firedAt: now, resolvedAt: null },
      messages: this.channels.operators.map(({ id: channel }) => ({
        id: randomUUIDv7(),
        channel,
        state: 'pending',
        attempts: 0,
        nextAt: now,
        sentAt: null,
        error: null,
      })),
    };
  }

  #count({ label }: Channel, sent: boolean): void {
    const counts = this.#sent.get(label);
    if (counts !== undefined) counts[sent ? 'sent' : 'failed']++;
  }
}

/** The condition that this instance cannot use the database. */
const OUTAGE = `database_unavailable:${HOST}`;

/** A time in which the database cannot be used. */
interface Outage {
  /** Unix milliseconds. */
  since: number;
  /** The alert about it, which was sent from memory; null: it has not lasted for `OUTAGE_MS`. */
  sent: SentOutage | null;
}

/** Sends a test message to each channel, at the same time. Never rejects. */
export async function sendTest(
  { operators }: Pick<Channels, 'operators'>,
  onAttempt: (channel: Channel, sent: boolean) => void = () => {},
): Promise<TestResult[]> {
  return await Promise.all(
    operators.map(async (channel): Promise<TestResult> => {
      const startedAt = performance.now();
      const result = (error: string | null) => {
        onAttempt(channel, error === null);
        const { id, target } = channel;
        return { channel: id, target, error, durationMs: Math.round(performance.now() - startedAt) };
      };
      const late = pause(TEST_MS, null, { ref: false }).then(() => {
        throw new Error(`it was not sent within ${TEST_MS / 1000} s`);
      });
      try {
        await Promise.race([channel.send({ id: randomUUIDv7(), event: 'test', alert: null }), late]);
        return result(null);
      } catch (error) {
        return result(messageOf(error));
      }
    }),
  );
}
