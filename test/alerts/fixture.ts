import { Alerts } from '../../src/alerts/alerts.ts';
import { Channels } from '../../src/alerts/channels.ts';
import type { Observation } from '../../src/alerts/conditions.ts';
import { Plans } from '../../src/accounts/plans.ts';
import { alertsSchema } from '../../src/config/alerts.ts';
import type { PlanLimits } from '../../src/config/plan.ts';
import type { Database } from '../../src/database/database.ts';
import { openLog } from '../../src/log.ts';
import { Secret } from '../../src/secret.ts';

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
}

/** Creates an instance that checks only when the test tells it to. */
export function testInstance(
  database: Database,
  { clock, urls = [], settings = {}, limits = {}, timeoutMs }: InstanceOptions,
): TestInstance {
  const parsed = alertsSchema.parse({
    webhooks: urls.map((url, index) => ({ name: `w${index}`, url, secretEnv: 'ALERTS' })),
    ...settings,
  });
  let text = '';
  const seen = { now: FINE };
  const alerts = new Alerts({
    database,
    settings: parsed,
    channels: new Channels({
      settings: parsed,
      secrets: new Map([['ALERTS', new Secret(SECRET)]]),
      mailer: null,
      publicUrl: () => 'https://llm.example.org',
      env: {},
      ...(timeoutMs !== undefined && { timeoutMs }),
    }),
    plans: new Plans({ plans: { standard: limits }, defaultPlan: 'standard' }),
    observe: () => Promise.resolve(seen.now),
    log: openLog('info', { write: (line) => (text += line) }),
    now: () => clock.now,
  });
  return {
    alerts,
    seen,
    log: () => text,
    async check() {
      await alerts.check();
      await alerts.idle();
    },
    [Symbol.asyncDispose]: () => alerts[Symbol.asyncDispose](),
  };
}
