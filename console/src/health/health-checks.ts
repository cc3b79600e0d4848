import type { ItemOf, ResponseOf } from '../api/client.ts';
import { bytes, counted, whole } from '../format/number.ts';
import { dateTime, duration } from '../format/time.ts';

type Health = ResponseOf<'readHealth'>;
type Model = ItemOf<'listServedModels'>;

export interface Check {
  name: string;
  /** `warning`: may become unhealthy; `off`: optional and not configured. */
  state: 'healthy' | 'warning' | 'unhealthy' | 'off';
  word: string;
  what: string;
  /** How to fix it; null: nothing to do. */
  advice: string | null;
}

export const isProblem = ({ state }: Check): boolean => state === 'unhealthy' || state === 'warning';

/** Returns all checks. `models` is undefined while they load. */
export function checksOf(health: Health, models: readonly Model[] | undefined): Check[] {
  return [
    database(health.database),
    ledger(health.ledger),
    limitsStore(health.limits_store, health.instances),
    disk(health.disk),
    ...(models === undefined ? [] : [modelsCheck(models)]),
    crashes(health.refused_requests),
    backups(health.backup),
    mail(health.mail),
    providers(health.providers),
  ];
}

type Subject = Pick<Check, 'name' | 'what'>;

const healthy = (subject: Subject, word = 'Healthy'): Check => ({
  ...subject,
  state: 'healthy',
  word,
  advice: null,
});

const unhealthy = (subject: Subject, word: string, advice: string): Check => ({
  ...subject,
  state: 'unhealthy',
  word,
  advice,
});

const off = (subject: Subject, word: string, advice: string): Check => ({
  ...subject,
  state: 'off',
  word,
  advice,
});

function database({ kind, reachable, writable }: Health['database']): Check {
  const isFile = kind === 'sqlite';
  const subject = { name: 'Database', what: isFile ? 'SQLite, in the data directory' : 'PostgreSQL' };
  if (reachable && writable) return healthy(subject);
  const part = isFile
    ? 'disk and the owner of the data directory'
    : 'PostgreSQL server and the connection to it';
  return unhealthy(
    subject,
    reachable ? 'Not writable' : 'Unreachable',
    `Check the ${part}. See docs/databases.md, "When the database is unavailable".`,
  );
}

function ledger({ writable, failing_for_ms: failing, waiting, reason }: Health['ledger']): Check {
  const pending =
    waiting === 0
      ? 'All finished requests are written'
      : `${counted(waiting, 'finished request')} ${waiting === 1 ? 'is' : 'are'} not written yet`;
  if (writable) return healthy({ name: 'Ledger', what: pending });
  const since = failing === null ? '' : `Failing for ${duration(failing)}: `;
  return unhealthy(
    { name: 'Ledger', what: `${since}${reason ?? 'see the service log'}. ${pending}` },
    'Not writable',
    'New requests are refused with `storage_unavailable` until their usage can be recorded again. See docs/ledger.md and docs/databases.md.',
  );
}

function limitsStore({ kind, reachable }: Health['limits_store'], instances: number | null): Check {
  if (kind === 'memory') {
    const subject = { name: 'Limits', what: 'Counted in memory, by this instance only' };
    if (instances === null || instances <= 1) return healthy(subject);
    return unhealthy(
      subject,
      'Not shared',
      'Each instance counts separately, so accounts can exceed their limits. Set `SLUICE_VALKEY_URL`. See docs/limits.md, "Several instances".',
    );
  }
  const subject = { name: 'Limits', what: 'Counted in Valkey or Redis, shared by all instances' };
  if (reachable) return healthy(subject);
  return unhealthy(
    subject,
    'Unreachable',
    'Check the Valkey or Redis server and the connection to it. See docs/limits.md, "When Valkey or Redis is unavailable".',
  );
}

/** Warn below this share or amount of free space: a model or a month of requests may fill it. */
const LOW_SHARE = 0.1;
const LOW_BYTES = 2 * 1024 ** 3;
const FULL_BYTES = 200 * 1024 ** 2;

function disk({ free_bytes: free, total_bytes: total }: Health['disk']): Check {
  const name = 'Disk';
  if (free === null)
    return { name, state: 'off', word: 'Unknown', what: 'Disk of the data directory', advice: null };
  const what = `${bytes(free)} free${total === null ? '' : ` of ${bytes(total)}`} on the disk of the data directory`;
  const low = free < LOW_BYTES || (total !== null && free < total * LOW_SHARE);
  if (!low) return healthy({ name, what });
  return {
    name,
    state: free < FULL_BYTES ? 'unhealthy' : 'warning',
    word: free < FULL_BYTES ? 'Almost full' : 'Low on space',
    what,
    advice:
      'Free up space. The command `sluice models list` shows downloaded models. See docs/models.md, "Where files live".',
  };
}

/** Whether the model takes requests. The next request loads an idle model. */
export const isAvailable = ({ state }: Pick<Model, 'state'>): boolean =>
  state === 'ready' || state === 'idle';

function modelsCheck(models: readonly Model[]): Check {
  const name = 'Models';
  const unavailable = models.filter((model) => !isAvailable(model));
  const required = models.filter((model) => model.required);
  const able = required.length > 0 ? required.every(isAvailable) : unavailable.length < models.length;
  const unready = models.filter(({ state }) => state !== 'ready');
  const what = [
    `${models.length - unready.length} of ${models.length} ready`,
    ...unready.map((model) => `${model.id}${model.required ? ' (required)' : ''} is ${model.state}`),
  ].join('; ');
  if (unavailable.length === 0) return healthy({ name, what }, 'Ready');
  const down = unavailable.some(({ state }) => state === 'down');
  return {
    name,
    state: able ? 'warning' : 'unhealthy',
    word: able ? (down ? 'Some down' : 'Some not ready') : 'Not ready',
    what,
    advice: `${able ? '' : `/readyz returns 503 until ${required.length > 0 ? 'every required model' : 'one model'} is ready. `}${
      down ? 'The table of replicas shows the reason' : 'The table of replicas shows their state'
    }. See docs/operations.md, "Health", and docs/troubleshooting.md.`,
  };
}

/** Number of requests listed in the check; the log lists all. */
const NAMED_REQUESTS = 3;

function crashes(refused: Health['refused_requests']): Check {
  const name = 'Engine crashes';
  if (refused.length === 0) return healthy({ name, what: 'No requests are refused for crashing an engine' });
  const named = refused
    .slice(-NAMED_REQUESTS)
    .map((request) => `${request.request_id} of account ${request.account_id}, key ${request.key_id}`);
  return {
    name,
    state: 'warning',
    word: `${whole(refused.length)} refused`,
    what: `${refused.length === 1 ? 'A request was' : `${whole(refused.length)} requests were each`} running during two engine crashes. Latest: ${named.join('; ')}`,
    advice:
      'Identical requests are refused for 10 minutes after the last crash. Revoke the key if its requests keep crashing engines. See docs/operations.md, "Health".',
  };
}

function backups(backup: Health['backup']): Check {
  const name = 'Backups';
  if (backup === null)
    return off(
      { name, what: 'This service does not back up its database' },
      'Not scheduled',
      'Set `backup` in the configuration file. See docs/databases.md, "Scheduled backups".',
    );
  const every = backup.every_hours === 1 ? 'Every hour' : `Every ${whole(backup.every_hours)} hours`;
  const last = backup.last_at === null ? 'none yet' : `latest ${dateTime(backup.last_at)}`;
  if (backup.failed_at === null) return healthy({ name, what: `${every}; ${last}` });
  const failed = `Failed at ${dateTime(backup.failed_at)}: ${backup.reason ?? 'see the service log'}`;
  return unhealthy(
    { name, what: `${every}; ${last}. ${failed}` },
    'Failed',
    'The service tries again every 5 minutes. See docs/databases.md, "Scheduled backups".',
  );
}

function mail(configured: boolean): Check {
  const name = 'Email';
  if (configured) return healthy({ name, what: 'Sends invitations and password reset links' }, 'Configured');
  return off(
    {
      name,
      what: 'Invitation links must be sent by hand, and users cannot reset their password by email',
    },
    'Not configured',
    'Set `smtp` in the configuration file. See docs/sign-in.md, "Mail".',
  );
}

function providers(names: readonly string[]): Check {
  const name = 'Sign-in';
  if (names.length > 0) return healthy({ name, what: `Password, ${names.join(', ')}` }, 'Configured');
  return off(
    { name, what: 'No sign-in providers configured' },
    'Password only',
    'Add Google, GitHub or an OpenID Connect provider under `signIn` in the configuration file. See docs/sign-in.md.',
  );
}
