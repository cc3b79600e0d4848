import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Alerts } from '../../src/alerts/alerts.ts';
import { Channels } from '../../src/alerts/channels.ts';
import type { Observation } from '../../src/alerts/conditions.ts';
import { Plans } from '../../src/accounts/plans.ts';
import { alertsSchema } from '../../src/config/alerts.ts';
import type { PlanLimits } from '../../src/config/plan.ts';
import type { Database } from '../../src/database/database.ts';
import { DatabaseError } from '../../src/database/errors.ts';
import type { Mailer } from '../../src/identity/mailer.ts';
import { openLog } from '../../src/support/log.ts';
import { Secret } from '../../src/support/secret.ts';

/** 32 bytes. */
export const SECRET = 'whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=';

/** What an instance sees if nothing is wrong. */
export const FINE: Omit<Observation, 'now' | 'errors'> = {
  startedAt: 0,
  home: '/data',
  freeBytes: 2 ** 40,
  replicas: [],
  ledger: { writable: true },
  backup: null,
};

export interface TestInstance extends AsyncDisposable {
  alerts: Alerts;
  /** What the instance sees. */
  seen: { now: Omit<Observation, 'now' | 'errors'> };
  /** Why it cannot see anything; null: it can. */
  fail: { now: Error | null };
  log(): string;
  /** Checks, and waits until the messages that are due were sent. */
  check(): Promise<void>;
}

interface InstanceOptions {
  clock: { now: number };
  /** URLs of webhooks, named `w0`, `w1` and so on. */
  urls?: readonly string[];
  settings?: object;
  limits?: PlanLimits;
  timeoutMs?: number;
  mailer?: Mailer;
  /** By how much the clock of the instance is ahead of that of the database, in milliseconds. */
  aheadMs?: number;
  /** The data directory, if it outlasts the instance. */
  home?: string;
}

/** Creates an instance that checks only when the test tells it to. */
export function testInstance(
  database: Database,
  {
    clock,
    urls = [],
    settings = {},
    limits = {},
    timeoutMs,
    mailer,
    aheadMs = 0,
    home = join(tmpdir(), randomUUID()),
  }: InstanceOptions,
): TestInstance {
  const parsed = alertsSchema.parse({
    webhooks: urls.map((url, index) => ({ name: `w${index}`, url, secretEnv: 'ALERTS' })),
    ...settings,
  });
  let text = '';
  const seen = { now: FINE };
  const fail: TestInstance['fail'] = { now: null };
  const alerts = new Alerts({
    database,
    settings: parsed,
    channels: new Channels({
      settings: parsed,
      secrets: new Map([['ALERTS', new Secret(SECRET)]]),
      mailer: mailer ?? null,
      publicUrl: () => 'https://llm.example.org',
      env: {},
      ...(timeoutMs !== undefined && { timeoutMs }),
    }),
    plans: new Plans({ plans: { standard: limits }, defaultPlan: 'standard' }),
    observe: () => (fail.now === null ? Promise.resolve(seen.now) : Promise.reject(fail.now)),
    log: openLog('info', { write: (line) => (text += line) }),
    home,
    now: () => clock.now + aheadMs,
    databaseNow: () => clock.now,
  });
  return {
    alerts,
    seen,
    fail,
    log: () => text,
    async check() {
      await alerts.check();
      await alerts.idle();
    },
    [Symbol.asyncDispose]: () => alerts[Symbol.asyncDispose](),
  };
}

/** The database, whose queries for background work, or for reports, fail while `isDown`. */
export function failing(
  database: Database,
  faulty: { isDown: boolean },
  part: 'background' | 'reports' = 'background',
): Database {
  return {
    ...database,
    get [part]() {
      if (faulty.isDown) throw new DatabaseError('unavailable', 'The database does not respond.');
      return database[part];
    },
  };
}
