import type { ItemOf, ResponseOf } from '../../api/client.ts';
import { inexact, money } from '../../format/money.ts';
import { limitAmount, limitLabel } from '../../format/limits.ts';
import { counted, percent } from '../../format/number.ts';
import { ago } from '../../format/time.ts';
import { checksOf, isAvailable, isProblem } from '../../health/health-checks.ts';

/** A problem in one sentence, in which code is in backquotes, and a link to where it is solved. */
export interface Problem {
  level: 'bad' | 'warn';
  text: string;
  action: string;
  to: string;
}

export interface Cause {
  code: string;
  count: number;
  meaning: string;
  /** Whether the service or an engine failed, rather than the request. */
  isOurs: boolean;
}

type Key = ItemOf<'listKeys'>;

/** What the problems of an account or, for operators, of the service follow from. */
export interface Findings {
  nowMs: number;
  requests: (code: string) => string;
  refusedPath: string;
  models: readonly ItemOf<'listServedModels'>[];
  causes: readonly Cause[];
  refusals: readonly ItemOf<'listRefusals'>[];
  keys: readonly Key[];
  spend: readonly ItemOf<'readUsage'>[];
  limits: readonly ItemOf<'readLimits'>[];
  /** For operators; null otherwise. */
  service: { health: ResponseOf<'readHealth'>; alerts: readonly ItemOf<'listAlerts'>[] } | null;
}

const NEAR = 0.8;
const EXPIRES_MS = 7 * 86_400_000;

/** Alerts about what the other problems do not show. */
const SHOWN_ALERTS = new Set(['budget_80', 'budget_100', 'replica_down', 'engine_crashed', 'backup_late']);

export function problemsOf(findings: Findings): Problem[] {
  const problems = [
    ...ofModels(findings),
    ...ofService(findings),
    ...ofErrors(findings),
    ...ofRefusals(findings),
    ...ofBudgets(findings),
    ...ofKeys(findings),
  ];
  return problems.toSorted((a, b) => Number(a.level === 'warn') - Number(b.level === 'warn'));
}

function ofModels({ models, service }: Findings): Problem[] {
  if (models.length === 0) {
    const to = service === null ? '/models' : '/models?add=1';
    return [{ level: 'warn', text: 'No models are configured.', action: 'View models', to }];
  }
  const isServing = models.some(isAvailable);
  return models
    .filter((model) => model.invalid || (!isAvailable(model) && (model.state !== 'unloaded' || !isServing)))
    .map(({ id, state, reason, fraction, invalid }) => {
      const isDown = invalid || state === 'down';
      const progress = fraction === null ? '' : ` (${percent(Math.floor(fraction * 100) / 100)})`;
      const word = invalid ? 'has an invalid definition' : `is ${WORDS[state] ?? state}${progress}`;
      return {
        level: isDown || !isServing ? 'bad' : 'warn',
        text: reason === null ? `${id} ${word}.` : `${id} ${word}: ${ended(reason)}`,
        action: 'View model',
        to: `/models?${service === null ? 'q' : 'model'}=${encodeURIComponent(id)}`,
      };
    });
}

const WORDS: Readonly<Record<string, string>> = { unloaded: 'not loaded' };

function ofService({ service, models }: Findings): Problem[] {
  if (service === null) return [];
  const isDown = models.some(({ state }) => state === 'down');
  const checks = checksOf(service.health, undefined).filter(isProblem);
  const alerts = service.alerts.filter(
    // The model has the reason of its replica.
    ({ type, resolved_at: end }) =>
      end === null && SHOWN_ALERTS.has(type) && !(isDown && type === 'replica_down'),
  );
  return [
    ...checks.map(({ name, state, what }): Problem => ({
      level: state === 'unhealthy' ? 'bad' : 'warn',
      text: `${name}: ${ended(what)}`,
      action: 'View operations',
      to: '/operator/operations',
    })),
    ...alerts.map(({ id, severity, title }): Problem => ({
      level: severity === 'critical' ? 'bad' : 'warn',
      text: ended(title),
      action: 'View alert',
      to: `/operator/alerts?alert=${encodeURIComponent(id)}`,
    })),
  ];
}

const ofErrors = ({ causes, requests }: Findings): Problem[] =>
  causes.map(({ code, count, meaning, isOurs }) => ({
    level: isOurs ? 'bad' : 'warn',
    text: `${counted(count, 'request')} failed with \`${code}\`: ${meaning}`,
    action: 'View requests',
    to: requests(code),
  }));

const ofRefusals = ({ refusals, refusedPath }: Findings): Problem[] =>
  byCode(refusals).map(({ code, count, message }) => ({
    level: 'warn',
    text: `${counted(count, 'request')} ${count === 1 ? 'was' : 'were'} refused with \`${code}\`: ${ended(message)}`,
    action: 'View refused',
    to: refusedPath,
  }));

/** Adds up the refused requests of each error code, the most frequent first, with the latest message. */
export function byCode(refusals: Findings['refusals']): { code: string; count: number; message: string }[] {
  return [...Map.groupBy(refusals, ({ code }) => code)]
    .map(([code, rows]) => ({
      code,
      count: rows.reduce((sum, { count }) => sum + count, 0),
      message: rows[0]?.message ?? '',
    }))
    .toSorted((a, b) => b.count - a.count);
}

function ofBudgets({ limits, keys, spend }: Findings): Problem[] {
  const ofAccount = limits
    .filter(
      ({ limit, bound, used }) => /_per_(day|month)$/.test(limit) && isNear(Number(used), Number(bound)),
    )
    .map(({ limit, bound, used, model }): Problem => ({
      level: Number(used) >= Number(bound) ? 'bad' : 'warn',
      text: `${limitLabel(limit)}${model === null ? '' : ` of ${model}`}: ${limitAmount(limit, used)} of ${limitAmount(limit, bound)} are used.`,
      action: 'View usage',
      to: '/usage',
    }));
  const spent = new Map(spend.map((row) => [row.key_id, row.cost_usd]));
  const ofKeys = keys.flatMap(({ id, name, status, limits: own }): Problem[] => {
    const [bound, used] = [own?.usd_per_month, spent.get(id)];
    if (status !== 'live' || bound === undefined || used === undefined) return [];
    if (!isNear(inexact(used), inexact(bound))) return [];
    return [
      {
        level: 'warn',
        text: `The key ${name} has spent ${money(used)} of its ${money(bound)} of this month.`,
        action: 'View key',
        to: `/keys?key=${encodeURIComponent(id)}`,
      },
    ];
  });
  return [...ofAccount, ...ofKeys];
}

const isNear = (used: number, bound: number): boolean => bound > 0 && used >= NEAR * bound;

const ofKeys = ({ keys, nowMs }: Findings): Problem[] =>
  keys.flatMap(({ id, name, status, expires_at: at }) =>
    status !== 'live' || at === null || Date.parse(at) - nowMs > EXPIRES_MS
      ? []
      : [
          {
            level: 'warn',
            text: `The key ${name} expires ${ago(at, nowMs)}.`,
            action: 'View key',
            to: `/keys?key=${encodeURIComponent(id)}`,
          },
        ],
  );

/** Ends a sentence that may end itself. */
const ended = (text: string): string => (/[.!?…]$/.test(text) ? text : `${text}.`);
