import type { ResponseOf } from '../../api/client.ts';
import { useRead, type QueryState } from '../../api/queries.ts';
import { Card } from '../../components/card.tsx';
import { LimitMeter } from '../../components/limit-meter.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Skeleton } from '../../components/states.tsx';
import { TextLink } from '../../components/link.tsx';
import type { Account } from './account-labels.tsx';

const EVERY_MS = 5000;

interface AccountLimitsProps {
  account: Account;
  plans: QueryState<ResponseOf<'listPlans'>>;
}

/** Usage of the limits of an account's plan. */
export function AccountLimits({ account, plans }: AccountLimitsProps) {
  return (
    <Card
      title="Limits"
      hint={
        <>
          Set by the <TextLink to="/operator/plans">plan</TextLink> and shared by all keys of the account
        </>
      }
    >
      <Loaded query={plans} loading={<Skeleton className="h-24 w-full" />}>
        {({ data }) => {
          const plan = data.find((one) => (account.plan === null ? one.default : one.name === account.plan));
          if (plan === undefined)
            return <p className="text-sm text-ink-3">This account has no plan, so it has no limits.</p>;
          const { limits } = plan;
          return limits === null ? (
            <p className="text-sm text-ink-3">
              All requests are refused because the plan is not in the configuration.
            </p>
          ) : (
            <div className="space-y-5">
              <LimitMeters accountId={account.id} model={null} />
              {Object.keys(limits.models ?? {}).map((model) => (
                <section key={model}>
                  <h3 className="mb-3 truncate text-xs font-medium text-ink-2" title={model}>
                    {model}
                  </h3>
                  <LimitMeters accountId={account.id} model={model} />
                </section>
              ))}
            </div>
          );
        }}
      </Loaded>
    </Card>
  );
}

/** Usage of the limits for one model. If `model` is null: of the limits for all models together. */
function LimitMeters({ accountId, model }: { accountId: string; model: string | null }) {
  const query = { account_id: accountId, ...(model !== null && { model }) };
  const limits = useRead('readLimits', { query }, { everyMs: EVERY_MS });
  return (
    <Loaded query={limits} loading={<Skeleton className="h-24 w-full" />}>
      {({ data }) => {
        const own = data.filter((limitStatus) => limitStatus.model === model);
        if (own.length === 0) return <p className="text-sm text-ink-3">No overall limits</p>;
        return (
          <ul className="space-y-4">
            {own.map((limitStatus) => (
              <li key={limitStatus.limit}>
                <LimitMeter limitStatus={limitStatus} />
              </li>
            ))}
          </ul>
        );
      }}
    </Loaded>
  );
}
