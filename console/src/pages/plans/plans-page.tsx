import { Gauge } from 'lucide-react';
import type { ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { ButtonLink } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Page } from '../../components/page.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { EmptyState, Notice } from '../../components/states.tsx';
import { limitsSet, limitText } from '../../format/limits.ts';
import { counted, whole } from '../../format/number.ts';
import { TextLink } from '../../components/link.tsx';

type Plan = ItemOf<'listPlans'>;
type Limits = NonNullable<Plan['limits']>;

/** The configured plans. */
export default function PlansPage() {
  const plans = useRead('listPlans', undefined);
  return (
    <Page
      title="Plans"
      hint={
        <>
          Limits on the combined usage of all keys of an account. Set them under <Mono>plans</Mono> in the
          configuration file; changes take effect immediately. See{' '}
          <TextLink to="/docs/guide/limits">Plans and limits</TextLink>.
        </>
      }
    >
      <Loaded
        card
        query={plans}
        empty={
          <Card>
            <EmptyState
              icon={Gauge}
              title="No plans configured"
              action={<ButtonLink to="/docs/guide/limits">Read how to add plans</ButtonLink>}
            >
              Without a plan, an account has no limits. Add plans to the configuration file to limit requests,
              tokens and cost.
            </EmptyState>
          </Card>
        }
      >
        {({ data: all }) => (
          <div className="space-y-4">
            {all.map((plan) => plan.limits === null && <MissingPlan key={plan.name} plan={plan} />)}
            <div className="grid gap-4 md:grid-cols-2 xl:grid-cols-3">
              {all.map(
                (plan) =>
                  plan.limits !== null && <PlanCard key={plan.name} plan={plan} limits={plan.limits} />,
              )}
            </div>
          </div>
        )}
      </Loaded>
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
      {plan.weight !== null && plan.weight !== 1 && (
        <p className="mt-1.5 text-sm">Weight when a model is busy: {plan.weight}</p>
      )}
      {Object.entries(models).map(([model, own]) => (
        <section key={model} className="mt-4 border-t border-line pt-4">
          <h3 className="mb-2 truncate text-xs font-medium text-ink-2" title={model}>
            Limits for {model}
          </h3>
          <LimitList limits={own} />
        </section>
      ))}
      {plan.default && (
        <p className="mt-4 text-xs leading-5 text-ink-3">
          Used by accounts without an assigned plan. To change the default plan, set <Mono>defaultPlan</Mono>.
        </p>
      )}
    </Card>
  );
}

/** The limits that are set. */
function LimitList({ limits }: { limits: Limits | NonNullable<Limits['models']>[string] }) {
  const set = limitsSet(limits);
  const { burst } = limits;
  if (set.length === 0) return <p className="text-sm text-ink-3">No limits</p>;
  return (
    <ul className="space-y-1.5 text-sm">
      {set.map(({ limit, bound }) => (
        <li key={limit}>{limitText(limit, bound)}</li>
      ))}
      {burst?.requests !== undefined && (
        <li className="text-ink-3">Burst of {whole(burst.requests)} requests</li>
      )}
      {burst?.tokens !== undefined && <li className="text-ink-3">Burst of {whole(burst.tokens)} tokens</li>}
    </ul>
  );
}

function MissingPlan({ plan }: { plan: Plan }) {
  return (
    <Notice tone="bad" title={`Plan ${plan.name} is not in the configuration`}>
      <Accounts plan={plan} /> {plan.accounts === 1 ? 'uses' : 'use'} it, and all requests of{' '}
      {plan.accounts === 1 ? 'that account' : 'those accounts'} are refused. Add the plan to the configuration
      file, or choose another plan for {plan.accounts === 1 ? 'the account' : 'the accounts'}.
    </Notice>
  );
}

/** The number of accounts on a plan, with a link to them. */
function Accounts({ plan: { name, accounts } }: { plan: Plan }) {
  if (accounts === 0) return 'No accounts';
  return (
    <TextLink to={`/operator/accounts?plan=${encodeURIComponent(name)}`}>
      {counted(accounts, 'account')}
    </TextLink>
  );
}

function Mono({ children }: { children: ReactNode }) {
  return <code className="font-mono text-xs text-ink-2">{children}</code>;
}
