import type { Element } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Card } from '../../components/card.tsx';
import { LimitMeter } from '../../components/limit-meter.tsx';
import { Failed, Skeleton } from '../../components/states.tsx';
import { TextLink } from '../../shell/link.tsx';
import type { Account } from './account-words.tsx';

const EVERY_MS = 5000;

interface AccountLimitsProps {
  account: Account;
  /** The one it is on; undefined: not read yet. */
  plan: Element<'listPlans'> | undefined;
}

/** The limits of an account's plan, and what is left of each. */
export function AccountLimits({ account, plan }: AccountLimitsProps) {
  return (
    <Card
      title="Limits"
      hint={
        <>
          Of its <TextLink to="/operator/plans">plan</TextLink>, shared by all of its keys.
        </>
      }
    >
      {plan === undefined ? (
        <Skeleton className="h-24 w-full" />
      ) : plan.limits === null ? (
        <p className="text-sm text-ink-3">Without its plan this account may use nothing.</p>
      ) : (
        <div className="space-y-5">
          <Standings accountId={account.id} model={null} />
          {Object.keys(plan.limits.models ?? {}).map((model) => (
            <section key={model}>
              <h3 className="mb-3 truncate text-xs font-medium text-ink-2" title={model}>
                {model}
              </h3>
              <Standings accountId={account.id} model={model} />
            </section>
          ))}
        </div>
      )}
    </Card>
  );
}

/** How the limits of one model stand, or those of all together. */
function Standings({ accountId, model }: { accountId: string; model: string | null }) {
  const query = { account_id: accountId, ...(model !== null && { model }) };
  const limits = useRead('readLimits', { query }, { everyMs: EVERY_MS });
  if (limits.data === undefined) {
    return limits.error === null ? (
      <Skeleton className="h-24 w-full" />
    ) : (
      <Failed error={limits.error} retry={() => void limits.refetch()} />
    );
  }
  const own = limits.data.data.filter((standing) => standing.model === model);
  if (own.length === 0) return <p className="text-sm text-ink-3">It sets none for all models together.</p>;
  return (
    <ul className="space-y-4">
      {own.map((standing) => (
        <li key={standing.limit}>
          <LimitMeter standing={standing} />
        </li>
      ))}
    </ul>
  );
}
