import { useRead } from '../../api/queries.ts';
import { Card } from '../../components/card.tsx';
import { Page } from '../../components/page.tsx';
import { Loaded, LoadFailure, Skeletons } from '../../components/states.tsx';
import { Live } from '../../components/updated-at.tsx';
import { checksOf, isProblem } from '../../health/health-checks.ts';
import { useConnection } from '../../state/connection.tsx';
import { About, Checks } from './health.tsx';
import { LoadAccounts, LoadCharts, LoadFigures } from './load.tsx';
import { Replicas } from './replicas.tsx';

/** Refetch intervals, in milliseconds. */
const LOAD_EVERY_MS = 1000;
const HEALTH_EVERY_MS = 5000;

/** How the service runs: its load, its replicas and its dependencies, problems first. */
export default function OperationsPage() {
  const load = useRead('readLoad', undefined, { everyMs: LOAD_EVERY_MS });
  const health = useRead('readHealth', undefined, { everyMs: HEALTH_EVERY_MS });
  const models = useRead('listServedModels', undefined, { everyMs: HEALTH_EVERY_MS });
  const isCurrent = useConnection() === 'up' && health.error === null;
  const checks = health.data === undefined ? [] : checksOf(health.data, models.data?.data);
  const problems = checks.filter(isProblem);
  return (
    <Page
      wide
      title="Operations"
      hint="Load, replicas and dependencies of this service"
      actions={<Live query={load} />}
    >
      <div className="space-y-4">
        {problems.length > 0 && <Checks title="Needs attention" checks={problems} isCurrent={isCurrent} />}
        <Loaded card query={load} loading={LOADING}>
          {(loaded) => <LoadFigures load={loaded} />}
        </Loaded>
        <Replicas />
        {(load.data !== undefined || load.error === null) && <LoadCharts seconds={load.data?.seconds} />}
        {load.data !== undefined && <LoadAccounts accounts={load.data.accounts} />}
        <Loaded card query={health}>
          {(loaded) => (
            <>
              <LoadFailure query={models} what="the models" />
              <Checks
                title="Health"
                hint="Dependencies of this service"
                checks={checks.filter((check) => !isProblem(check))}
                isCurrent={isCurrent}
              />
              <About health={loaded} now={health.dataUpdatedAt} />
            </>
          )}
        </Loaded>
      </div>
    </Page>
  );
}

const LOADING = (
  <Card>
    <Skeletons heights={['h-60 sm:h-40 lg:h-[4.5rem]']} />
  </Card>
);
