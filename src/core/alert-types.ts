type Severity = 'warning' | 'critical';

/** A budget of an account: its limit for a calendar period. */
interface BudgetFacts {
  accountName: string;
  /** Names it, such as `monthly tokens for acme/small`. */
  budget: string;
  /** With their unit. */
  used: string;
  bound: string;
  /** Of the bound, in whole per cent. */
  percent: number;
  /** When the period ends, in Unix milliseconds. */
  resetsAt: number;
}

interface AlertType<Facts> {
  severity: Severity;
  /** When it fires, for the documentation and the console. */
  description: string;
  /** Whether a message is sent when it is resolved. */
  sendsResolved: boolean;
  /** Whether it fires only once for a subject, such as a budget in one month. Others fire again after they are resolved. */
  once: boolean;
  /** One line, without a full stop, written from the facts, whose times are Unix milliseconds. */
  title: (facts: Facts) => string;
  /** What happened and what to do next. */
  text: (facts: Facts) => string;
}

const row = <Facts>(type: AlertType<Facts>): AlertType<Facts> => type;

/** The types of alerts, by their names in the settings. */
const ROWS = {
  budget_80: row<BudgetFacts>({
    severity: 'warning',
    description: 'An account has used 80% of a limit per day or month. Once per period and limit.',
    sendsResolved: false,
    once: true,
    title: ({ accountName, percent, budget }) => `${accountName} has used ${percent}% of its ${budget}`,
    text: (facts) =>
      `${facts.used} of ${facts.bound} are used. A request that may use more than the rest is refused. It resets at ${isoTime(facts.resetsAt)}.`,
  }),
  budget_100: row<BudgetFacts>({
    severity: 'critical',
    description: 'An account has used up a limit per day or month. Once per period and limit.',
    sendsResolved: false,
    once: true,
    title: ({ accountName, budget }) => `${accountName} has used up its ${budget}`,
    text: (facts) =>
      `${facts.used} of ${facts.bound} are used, and requests are refused with \`insufficient_quota\`. The budget resets at ${isoTime(facts.resetsAt)}. An operator can give the account higher limits or another plan.`,
  }),
  // `model` null: the whole service.
  error_rate: row<{ model: string | null; failed: number; requests: number; windowMs: number }>({
    severity: 'critical',
    description:
      'Too many requests to a model, or to the whole service, fail with status 500 or above: `alerts.errorShare` of at least `alerts.errorMinRequests` within `alerts.errorWindowMs`, on one instance. The service is not reported if only reported models fail.',
    sendsResolved: true,
    once: false,
    title: ({ model, failed, requests }) =>
      `${Math.round((100 * failed) / requests)}% of the requests${model === null ? '' : ` to ${model}`} fail`,
    text: ({ failed, requests, windowMs }) =>
      `${failed} of ${requests} requests failed in the last ${Math.round(windowMs / 60_000)} min. The log and the Requests page show the errors.`,
  }),
  replica_down: row<{ model: string; replica: string; reason: string }>({
    severity: 'critical',
    description:
      'A replica is down, or its circuit breaker has paused it, for `alerts.replicaDownMs`. Resolved when it is ready again.',
    sendsResolved: true,
    once: false,
    // Most names of replicas begin with the model.
    title: ({ model, replica }) =>
      replica.includes(model)
        ? `The replica ${replica} is down`
        : `The replica ${replica} of ${model} is down`,
    text: ({ reason }) => `Reason: ${oneLine(reason)}. The Operations page shows the state of all replicas.`,
  }),
  engine_crashed: row<{ model: string; host: string; reason: string }>({
    severity: 'warning',
    description:
      'The process of an embedded engine exited unexpectedly. It is restarted. Resolved after 10 minutes without a crash.',
    sendsResolved: false,
    once: false,
    title: ({ model, host }) => `The engine of ${model} crashed on ${host}`,
    text: ({ reason }) =>
      `Reason: ${oneLine(reason)}. The service restarts the engine, and continues its responses. If this happens again, see the log.`,
  }),
  disk_low: row<{ host: string; directory: string; freeBytes: number }>({
    severity: 'critical',
    description: 'The disk of the data directory has less free space than `alerts.diskFreeBytes`.',
    sendsResolved: true,
    once: false,
    title: ({ host, freeBytes }) => `Only ${gibibytes(freeBytes)} are free on the disk of ${host}`,
    text: ({ directory }) =>
      `Requests are refused when the disk is full. Free some space on the disk of ${directory}: remove models or old backups.`,
  }),
  ledger_unwritable: row<{ host: string; reason: string }>({
    severity: 'critical',
    description: 'The request ledger cannot be written, so requests are refused.',
    sendsResolved: true,
    once: false,
    title: ({ host }) => `${host} cannot write the request ledger`,
    text: ({ reason }) =>
      `Requests get 503 \`storage_unavailable\` until it can be written. Reason: ${oneLine(reason)}.`,
  }),
  database_unavailable: row<{ host: string; reason: string }>({
    severity: 'critical',
    description:
      'The database cannot be read or written for 30 seconds. Each instance sends this alert itself, because instances cannot agree without the database.',
    sendsResolved: true,
    once: false,
    title: ({ host }) => `${host} cannot use the database`,
    text: ({ reason }) =>
      `Requests get 503 \`storage_unavailable\` until the database is available. Reason: ${oneLine(reason)}.`,
  }),
  backup_failed: row<{ host: string; reason: string }>({
    severity: 'critical',
    description: 'A scheduled backup failed. Resolved when one succeeds.',
    sendsResolved: true,
    once: false,
    title: ({ host }) => `The scheduled backup failed on ${host}`,
    text: ({ reason }) => `It is tried again every 5 minutes. Reason: ${oneLine(reason)}.`,
  }),
  // `lastAt` null: there is no backup.
  backup_late: row<{ host: string; everyHours: number; lastAt: number | null }>({
    severity: 'warning',
    description: 'The latest scheduled backup is older than `backup.everyHours` and one hour more.',
    sendsResolved: true,
    once: false,
    title: ({ host }) => `The scheduled backup is late on ${host}`,
    text: ({ everyHours, lastAt }) =>
      `A backup is made every ${everyHours} h. The latest one: ${lastAt === null ? 'none' : isoTime(lastAt)}. The log shows what delays it.`,
  }),
  key_expiring: row<{ keyName: string; keyPrefix: string; accountName: string; expiresAt: number }>({
    severity: 'warning',
    description: 'An API key expires within `alerts.keyExpiryDays`. Once per key and day of expiry.',
    sendsResolved: false,
    once: true,
    title: ({ keyName, accountName, expiresAt }) =>
      `The key ${keyName} of ${accountName} expires on ${isoTime(expiresAt).slice(0, 10)}`,
    text: ({ keyPrefix, expiresAt }) =>
      `The key ${keyPrefix}… is refused from ${isoTime(expiresAt)}. Create a new key for the programs that use it.`,
  }),
};

export type AlertTypeName = keyof typeof ROWS;

// `Object.keys` returns strings.
export const ALERT_TYPES = Object.keys(ROWS) as AlertTypeName[];

type AlertFacts = { [Type in AlertTypeName]: Parameters<(typeof ROWS)[Type]['title']>[0] };

export const ALERTS: { readonly [Type in AlertTypeName]: AlertType<AlertFacts[Type]> } = ROWS;

/** How alerts are treated whose type only a newer version knows. */
const UNKNOWN = { severity: 'warning', sendsResolved: true, once: false } as const;

/** Returns how alerts of a type from the database are treated. */
export function treatmentOf(type: string): Pick<AlertType<never>, 'severity' | 'sendsResolved' | 'once'> {
  return isAlertType(type) ? ALERTS[type] : UNKNOWN;
}

export function isAlertType(text: string): text is AlertTypeName {
  return Object.hasOwn(ALERTS, text);
}

/** What is wrong: an instance fires an alert for it, unless one is firing already. */
export interface Condition {
  type: AlertTypeName;
  /** Identifies what is wrong, on all instances: the type and its subject. */
  key: string;
  title: string;
  text: string;
}

const MAX_KEY = 500;
const MAX_TITLE = 300;
const MAX_TEXT = 2000;

/** Returns a condition with its texts. `subject` identifies it among those of its type. */
export function conditionOf<Type extends AlertTypeName>(
  type: Type,
  subject: string,
  facts: AlertFacts[Type],
): Condition {
  const { title, text } = ALERTS[type];
  return {
    type,
    key: `${type}:${subject}`.slice(0, MAX_KEY),
    title: oneLine(title(facts)).slice(0, MAX_TITLE),
    text: text(facts).slice(0, MAX_TEXT),
  };
}

/** Formats Unix milliseconds as ISO 8601 in UTC, to the second. */
function isoTime(atMs: number): string {
  return new Date(atMs).toISOString().replace(/\.\d{3}Z$/, 'Z');
}

function gibibytes(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(1)} GiB`;
}

/** Removes line breaks, control characters and a full stop at the end. */
function oneLine(text: string): string {
  return text
    .replaceAll(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .replace(/\.$/, '');
}
