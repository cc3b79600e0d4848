import { CircleAlert, CircleCheck, TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import type { ApiError, ResponseOf } from '../../api/client.ts';
import { useRead, type QueryState } from '../../api/queries.ts';
import { ButtonLink } from '../../components/button.tsx';
import { Skeleton } from '../../components/states.tsx';
import { clock } from '../../format/time.ts';
import { useConnection } from '../../state/connection.tsx';
import { checksOf, isAvailable } from '../../health/health-checks.ts';

type ModelsQuery = QueryState<ResponseOf<'listServedModels'>> & { dataUpdatedAt: number };

const EVERY_MS = 10_000;

type Level = 'healthy' | 'warning' | 'unhealthy' | 'loading';

/** The health of the service in one line, for operators. */
export function Health({ models }: { models: ModelsQuery }) {
  const health = useRead('readHealth', undefined, { everyMs: EVERY_MS });
  const isUp = useConnection() === 'up';
  const unread = [health, models].find(({ error }) => error !== null);
  if (unread !== undefined || !isUp) return <Unknown title="Health unknown" query={unread ?? health} />;
  if (health.data === undefined || models.data === undefined)
    return <HealthLine level="loading" title="Checking health" />;
  const checks = checksOf(health.data, models.data.data);
  const failed = checks.filter(({ state }) => state === 'unhealthy');
  const warned = checks.filter(({ state }) => state === 'warning');
  const shown = failed.length > 0 ? failed : warned;
  const level = failed.length > 0 ? 'unhealthy' : warned.length > 0 ? 'warning' : 'healthy';
  return (
    <HealthLine
      level={level}
      title={
        level === 'healthy' ? 'All checks passed' : level === 'warning' ? 'Needs attention' : 'Unhealthy'
      }
      action={
        <ButtonLink size="small" to="/operator/health">
          View health
        </ButtonLink>
      }
    >
      {shown.length === 0
        ? 'Database, ledger, limits and models'
        : shown.map(({ name, what }) => `${name}: ${what}`).join('. ')}
    </HealthLine>
  );
}

interface UnknownProps {
  title: string;
  query: { error: ApiError | null; dataUpdatedAt: number };
}

function Unknown({ title, query: { error, dataUpdatedAt } }: UnknownProps) {
  return (
    <HealthLine level="warning" title={title}>
      {error?.message ?? 'The last check is outdated.'}
      {dataUpdatedAt > 0 && ` Last checked at ${clock(dataUpdatedAt)}.`}
    </HealthLine>
  );
}

/** Whether models are available, for users who cannot see the health of the service. */
export function ModelsHealth({ query }: { query: ModelsQuery }) {
  const isUp = useConnection() === 'up';
  if (query.error !== null || !isUp) return <Unknown title="State of the models unknown" query={query} />;
  const models = query.data?.data;
  if (models === undefined) return <HealthLine level="loading" title="Checking models" />;
  const unready = models.filter((model) => !isAvailable(model));
  if (models.length === 0) return <HealthLine level="warning" title="No models configured" />;
  if (unready.length === 0) return <HealthLine level="healthy" title="All models are available" />;
  return (
    <HealthLine
      level={unready.length < models.length ? 'warning' : 'unhealthy'}
      title={unready.length < models.length ? 'Some models are not available' : 'No model is available'}
    >
      {unready.map(({ id, state }) => `${id} is ${state}`).join('; ')}
    </HealthLine>
  );
}

const LOOKS = {
  healthy: { tone: 'text-good', icon: CircleCheck },
  warning: { tone: 'text-warn', icon: TriangleAlert },
  unhealthy: { tone: 'text-bad', icon: CircleAlert },
  loading: { tone: 'text-ink-3', icon: CircleCheck },
};

function HealthLine({
  level,
  title,
  action,
  children,
}: {
  level: Level;
  title: string;
  action?: ReactNode;
  children?: ReactNode;
}) {
  const { tone, icon: Icon } = LOOKS[level];
  return (
    <section
      aria-label="Health"
      className="flex flex-wrap items-center gap-x-3 gap-y-2 rounded-xl border border-line bg-surface px-4 py-3 text-sm sm:px-5"
    >
      <Icon className={`size-5 shrink-0 ${tone}`} aria-hidden="true" />
      <p className="min-w-0 flex-1 basis-52 break-words">
        <span className="mr-2 font-semibold">{title}</span>
        <span className="text-ink-3">
          {level === 'loading' ? <Skeleton className="inline-block h-4 w-40 align-middle" /> : children}
        </span>
      </p>
      {action}
    </section>
  );
}
