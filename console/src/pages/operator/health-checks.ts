import type { Answer, Element } from '../../api/client.ts';
import { bytes, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';

type Health = Answer<'readHealth'>;
type Model = Element<'listServedModels'>;

/** One thing that the service stands on. */
export interface Check {
  name: string;
  /** `watch`: it may become unwell; `off`: it is not set up, and need not be. */
  state: 'well' | 'watch' | 'unwell' | 'off';
  /** The state in a word or two. */
  word: string;
  what: string;
  /** What to do; null: nothing. */
  advice: string | null;
}

/** All of them. `models` is undefined while they are not read. */
export function checksOf(health: Health, models: readonly Model[] | undefined): Check[] {
  return [
    database(health.database),
    ledger(health.ledger),
    limitsStore(health.limits_store, health.copies),
    disk(health.disk),
    ...(models === undefined ? [] : [modelsCheck(models)]),
    crashes(health.refused_requests),
    mail(health.mail),
    providers(health.providers),
  ];
}

function database({ kind, reachable, writable }: Health['database']): Check {
  const name = 'Database';
  const what = kind === 'sqlite' ? 'SQLite, in the home of the service' : 'PostgreSQL';
  if (reachable && writable) return { name, state: 'well', word: 'Well', what, advice: null };
  return {
    name,
    state: 'unwell',
    word: reachable ? 'Cannot be written' : 'Does not answer',
    what,
    advice:
      kind === 'sqlite'
        ? 'Look at the disk, and at who owns the home of the service. See docs/databases.md, "When the database is away".'
        : 'Look at the PostgreSQL server, and at the way to it. See docs/databases.md, "When the database is away".',
  };
}

function ledger({ writable, failing_for_ms: failing, waiting, reason }: Health['ledger']): Check {
  const name = 'Ledger';
  const pending =
    waiting === 0
      ? 'Every request that has ended is written'
      : `${whole(waiting)} ${waiting === 1 ? 'request has' : 'requests have'} ended and ${waiting === 1 ? 'is' : 'are'} not written yet`;
  if (writable) return { name, state: 'well', word: 'Well', what: pending, advice: null };
  return {
    name,
    state: 'unwell',
    word: 'Cannot be written',
    what: `${failing === null ? '' : `For ${duration(failing)}: `}${reason ?? 'the log says why'}. ${pending}`,
    advice:
      'Requests are refused with storage_unavailable until it can be written again: what cannot be counted is not sold. See docs/ledger.md and docs/databases.md.',
  };
}

function limitsStore({ kind, reachable }: Health['limits_store'], copies: number | null): Check {
  const name = 'Limits';
  if (kind === 'memory') {
    const alone = copies === null || copies <= 1;
    return {
      name,
      state: alone ? 'well' : 'unwell',
      word: alone ? 'Well' : 'Not shared',
      what: 'Counted in this process',
      advice: alone
        ? null
        : 'Each of the copies counts by itself, so that accounts get several times their limits. Set SLUICE_VALKEY_URL: see docs/limits.md, "Several copies".',
    };
  }
  return {
    name,
    state: reachable ? 'well' : 'unwell',
    word: reachable ? 'Well' : 'Does not answer',
    what: 'Counted in Valkey or Redis, for all copies',
    advice: reachable
      ? null
      : 'Look at the server, and at the way to it. See docs/limits.md, "When the store is away".',
  };
}

/** Below this share or this much the disk is worth a look: a model or a month of requests may fill it. */
const LOW_SHARE = 0.1;
const LOW_BYTES = 2 * 1024 ** 3;
const FULL_BYTES = 200 * 1024 ** 2;

function disk({ free_bytes: free, total_bytes: total }: Health['disk']): Check {
  const name = 'Disk';
  if (free === null)
    return { name, state: 'off', word: 'Not told', what: 'Where the home of the service is', advice: null };
  const what = `${bytes(free)} free${total === null ? '' : ` of ${bytes(total)}`}, where the home of the service is`;
  const low = free < LOW_BYTES || (total !== null && free < total * LOW_SHARE);
  if (!low) return { name, state: 'well', word: 'Well', what, advice: null };
  return {
    name,
    state: free < FULL_BYTES ? 'unwell' : 'watch',
    word: free < FULL_BYTES ? 'Nearly full' : 'Getting full',
    what,
    advice:
      'Make room: sluice models list shows the models that are kept. See docs/models.md, "Where files live".',
  };
}

function modelsCheck(models: readonly Model[]): Check {
  const name = 'Models';
  const away = models.filter(({ state }) => state !== 'ready');
  const required = models.filter((model) => model.required);
  const able =
    required.length > 0 ? required.every(({ state }) => state === 'ready') : away.length < models.length;
  const what = [
    `${models.length - away.length} of ${models.length} ready`,
    ...away.map((model) => `${model.id}${model.required ? ', which is required,' : ''} is ${model.state}`),
  ].join('; ');
  if (away.length === 0) return { name, state: 'well', word: 'Ready', what, advice: null };
  const down = away.some(({ state }) => state === 'down');
  return {
    name,
    state: able ? 'watch' : 'unwell',
    word: able ? (down ? 'Some are down' : 'Some on their way') : 'Not ready',
    what,
    advice: `${able ? '' : `/readyz answers 503 until ${required.length > 0 ? 'every required model' : 'one model'} is ready. `}${
      down ? 'The page Engines says why' : 'The page Engines shows how far they are'
    }. See docs/operations.md, "Health", and docs/troubleshooting.md.`,
  };
}

/** Requests named in the text of the check; the log names them all. */
const NAMED_REQUESTS = 3;

function crashes(refused: Health['refused_requests']): Check {
  const name = 'Engine crashes';
  if (refused.length === 0)
    return {
      name,
      state: 'well',
      word: 'Well',
      what: 'No request is refused for crashing an engine',
      advice: null,
    };
  const named = refused
    .slice(-NAMED_REQUESTS)
    .map((request) => `${request.request_id} of account ${request.account_id}, key ${request.key_id}`);
  return {
    name,
    state: 'watch',
    word: `${whole(refused.length)} refused`,
    what: `${refused.length === 1 ? 'A request was' : `${whole(refused.length)} requests were`} running in two crashes of an engine; latest: ${named.join('; ')}`,
    advice:
      'Each is refused for 10 minutes after its last crash. Revoke the key if its requests keep crashing engines. See docs/operations.md, "Health".',
  };
}

function mail(configured: boolean): Check {
  const name = 'E-mail';
  return configured
    ? {
        name,
        state: 'well',
        word: 'Set up',
        what: 'Invitations and links to a new password are sent',
        advice: null,
      }
    : {
        name,
        state: 'off',
        word: 'Not set up',
        what: 'Invitations are handed on as links, and a forgotten password cannot be replaced by e-mail',
        advice: 'Set smtp in the configuration: see docs/sign-in.md.',
      };
}

function providers(names: readonly string[]): Check {
  const name = 'Sign-in';
  return names.length > 0
    ? { name, state: 'well', word: 'Set up', what: `By password, and with ${names.join(', ')}`, advice: null }
    : {
        name,
        state: 'off',
        word: 'By password',
        what: 'No other provider is set up',
        advice:
          'Google, GitHub and any OpenID Connect provider can be, under signIn in the configuration: see docs/sign-in.md.',
      };
}
