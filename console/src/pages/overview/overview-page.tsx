import { LayoutDashboard } from 'lucide-react';
import { useRead } from '../../api/queries.ts';
import { ButtonLink } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Page } from '../../components/page.tsx';
import { NoAccount } from '../../components/no-account.tsx';
import { ScopeSwitch } from '../../components/scope-switch.tsx';
import { scopeInQuery, useScope } from '../../state/scope.ts';
import { useSession } from '../../state/session.tsx';
import { GetStarted } from './get-started.tsx';
import { Health, ModelsHealth } from './health.tsx';
import { LatestRequests } from './latest-requests.tsx';
import { Models } from './models.tsx';
import { Today } from './today.tsx';

/** Refetch interval of the page, in milliseconds. */
const EVERY_MS = 10_000;
/** Number of requests shown. */
const LATEST = 8;

/** The start page: health, the usage of today, models and the latest requests. */
export default function OverviewPage() {
  const { user } = useSession();
  const scope = useScope();
  const isShown = scope.account !== null || scope.all;
  const requests = useRead(
    'listRequests',
    { query: { ...scope.query, limit: LATEST } },
    { everyMs: EVERY_MS, keep: true, enabled: isShown },
  );
  const models = useRead('listServedModels', undefined, { everyMs: EVERY_MS });
  if (!isShown) return <NoAccount title="Overview" icon={LayoutDashboard} />;
  const query = new URLSearchParams(scopeInQuery(scope));
  const search = query.size > 0 ? `?${query}` : '';
  return (
    <Page
      title="Overview"
      hint={scope.account === null ? 'All accounts' : scope.account.name}
      actions={<ScopeSwitch />}
    >
      <div className="space-y-4">
        {user.operator ? <Health models={models} /> : <ModelsHealth query={models} />}
        {requests.data?.data.length === 0 && <GetStarted accountId={scope.account?.id ?? null} />}
        <Today scope={scope} />
        <div className="grid grid-cols-1 items-start gap-4 xl:grid-cols-[minmax(0,1fr)_20rem]">
          <Card
            flush
            title="Latest requests"
            actions={
              <ButtonLink size="small" to={`/requests${search}`}>
                View all
              </ButtonLink>
            }
          >
            <LatestRequests scope={scope} requests={requests} />
          </Card>
          <Card
            flush
            title="Models"
            actions={
              <ButtonLink size="small" to="/models">
                View all
              </ButtonLink>
            }
          >
            <Models models={models} />
          </Card>
        </div>
      </div>
    </Page>
  );
}
