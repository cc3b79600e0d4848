import { Gauge } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Element } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Card } from '../../components/card.tsx';
import { Page } from '../../components/page.tsx';
import { Empty, Failed, Notice, Skeleton } from '../../components/states.tsx';
import { limitsSet, limitWords } from '../../format/limits.ts';
import { whole } from '../../format/number.ts';
import { TextLink } from '../../shell/link.tsx';

type Plan = Element<'listPlans'>;
type Limits = NonNullable<Plan['limits']>;

/** What accounts may use, by their plans. */
export default function PlansPage() {
  const plans = useRead('listPlans', undefined);
  const all = plans.data?.data;
  return (
    <Page
      title="Plans"
      hint={
        <>
          What all keys of an account may use together. Plans stand in the configuration file under{' '}
          <Mono>plans</Mono>: a change of the file takes effect at once. docs/limits.md says what each limit
          means.
        </>
      }
    >
      {all === undefined ? (
        <Card>
          {plans.error === null ? (
            <Skeleton className="h-64 w-full" />
          ) : (
            <Failed error={plans.error} retry={() => void plans.refetch()} />
          )}
        </Card>
      ) : all.length === 0 ? (
        <Card>
          <Empty icon={Gauge} title="The configuration has no plan" />
        </Card>
      ) : (
        <div className="space-y-4">
          {all.map((plan) => plan.limits === null && <LostPlan key={plan.name} plan={plan} />)}
          <div className="grid items-start gap-4 md:grid-cols-2 xl:grid-cols-3">
            {all.map(
              (plan) => plan.limits !== null && <PlanCard key={plan.name} plan={plan} limits={plan.limits} />,
            )}
          </div>
        </div>
      )}
    </Page>
  );
}

function PlanCard({ plan, limits }: { plan: Plan; limits: Limits }) {
  const { models = {} } = limits;
  return (
    <Card
      title={<span className="break-words">{plan.name}</span>}
      hint={<Accounts plan={plan} />}
      actions={plan.default && <Badge tone="accent">Default</Badge>}
    >
      <LimitList limits={limits} />
      {Object.entries(models).map(([model, own]) => (
        <section key={model} className="mt-4 border-t border-line pt-4">
          <h3 className="mb-2 truncate text-xs font-medium text-ink-2" title={model}>
            And for {model}
          </h3>
          <LimitList limits={own} />
        </section>
      ))}
      {plan.default && (
        <p className="mt-4 text-xs leading-5 text-ink-3">
          Accounts that have no plan of their own are on it, and follow when <Mono>defaultPlan</Mono> names
          another.
        </p>
      )}
    </Card>
  );
}

/** Each limit in words; one that is not set bounds nothing. */
function LimitList({ limits }: { limits: Limits | NonNullable<Limits['models']>[string] }) {
  const set = limitsSet(limits);
  const { burst } = limits;
  if (set.length === 0) return <p className="text-sm text-ink-3">No limits</p>;
  return (
    <ul className="space-y-1.5 text-sm">
      {set.map(({ limit, bound }) => (
        <li key={limit}>{limitWords(limit, bound)}</li>
      ))}
      {burst?.requests !== undefined && (
        <li className="text-ink-3">{whole(burst.requests)} requests of a minute at once</li>
      )}
      {burst?.tokens !== undefined && (
        <li className="text-ink-3">{whole(burst.tokens)} tokens of a minute at once</li>
      )}
    </ul>
  );
}

function LostPlan({ plan }: { plan: Plan }) {
  return (
    <Notice tone="bad" title={`The plan ${plan.name} is not in the configuration any more`}>
      <Accounts plan={plan} /> {plan.accounts === 1 ? 'names' : 'name'} it, and every request of{' '}
      {plan.accounts === 1 ? 'that account' : 'those accounts'} is refused. Put it back into the configuration
      file, or put {plan.accounts === 1 ? 'the account' : 'them'} on another plan.
    </Notice>
  );
}

/** How many accounts are on it, with the way to them. */
function Accounts({ plan: { name, accounts } }: { plan: Plan }) {
  if (accounts === 0) return 'No account is on it.';
  return (
    <TextLink to={`/operator/accounts?plan=${encodeURIComponent(name)}`}>
      {whole(accounts)} {accounts === 1 ? 'account' : 'accounts'}
    </TextLink>
  );
}

function Mono({ children }: { children: ReactNode }) {
  return <code className="font-mono text-xs text-ink-2">{children}</code>;
}
