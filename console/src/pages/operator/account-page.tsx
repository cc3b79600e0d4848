import { UserPlus } from 'lucide-react';
import { useParams } from 'wouter';
import { useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Page } from '../../components/page.tsx';
import { Notice } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { InvitationsCard } from '../../members/invitations-card.tsx';
import { InviteDialog } from '../../members/invite-dialog.tsx';
import { MembersCard } from '../../members/members-card.tsx';
import { TextLink } from '../../components/link.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { AccountActions } from './account-actions.tsx';
import { AccountAudit } from './account-audit.tsx';
import { AccountKeys } from './account-keys.tsx';
import { AccountLimits } from './account-limits.tsx';
import { AccountUsage } from './account-usage.tsx';
import { AccountState, PlanName, type Account } from './account-labels.tsx';

const PARENT = { label: 'Accounts', to: '/operator/accounts' };

/** One account: status, usage, limits, keys, members and recent changes. */
export default function AccountPage() {
  const { id } = useParams<{ id: string }>();
  const account = useRead('getAccount', { params: { id } });
  if (account.data !== undefined) return <Account account={account.data} />;
  return (
    <Page title="Account" parent={PARENT}>
      <Loaded card query={account}>
        {() => null}
      </Loaded>
    </Page>
  );
}

function Account({ account }: { account: Account }) {
  const plans = useRead('listPlans', undefined);
  const defaultPlan = plans.data?.data.find((plan) => plan.default)?.name;
  const plan = plans.data?.data.find(({ name }) => name === (account.plan ?? defaultPlan));
  const [query, change] = useQueryState();
  const invite = (
    <Button
      icon={<UserPlus className="size-4" aria-hidden="true" />}
      disabled={account.status === 'closed'}
      onClick={() => change({ invite: 'member' })}
    >
      Invite member
    </Button>
  );
  return (
    <Page
      title={account.name}
      parent={PARENT}
      hint={<Head account={account} defaultPlan={defaultPlan} />}
      actions={
        <>
          {invite}
          <AccountActions account={account} />
        </>
      }
    >
      <div className="space-y-4">
        <State account={account} lost={plan !== undefined && plan.limits === null} />
        <AccountUsage accountId={account.id} />
        <div className="grid items-start gap-4 lg:grid-cols-2">
          <AccountLimits account={account} plans={plans} />
          <AccountKeys accountId={account.id} />
        </div>
        <MembersCard titled account={account} editable={account.status !== 'closed'} />
        <InvitationsCard accountId={account.id} />
        <AccountAudit accountId={account.id} />
      </div>
      <InviteDialog
        account={account}
        open={query.has('invite')}
        role={query.get('invite') === 'owner' ? 'owner' : 'member'}
        cancel={query.get('invite') === 'owner' ? 'Later' : 'Cancel'}
        onClose={() => change({ invite: null }, { replace: true })}
      />
    </Page>
  );
}

function Head({ account, defaultPlan }: { account: Account; defaultPlan: string | undefined }) {
  return (
    <span className="flex flex-wrap items-center gap-x-4 gap-y-1">
      <AccountState status={account.status} />
      <span>
        Plan <PlanName plan={account.plan} defaultPlan={defaultPlan} />
      </span>
      <span>
        Created <Time at={account.created_at} />
      </span>
      <span className="font-mono text-xs">{account.id}</span>
    </span>
  );
}

/** Explains why requests of the account are refused, if they are. */
function State({ account: { status, plan }, lost }: { account: Account; lost: boolean }) {
  if (status === 'closed') {
    return <Notice>This account is permanently closed. Its usage, receipts and audit log are kept.</Notice>;
  }
  if (status === 'suspended') {
    return (
      <Notice tone="warn" title="This account is suspended">
        Requests with its keys are refused until the account is resumed.
      </Notice>
    );
  }
  if (!lost) return null;
  return (
    <Notice tone="bad" title="The plan of this account is not in the configuration">
      All requests of this account are refused. Add the plan {plan} to the configuration file, or choose
      another <TextLink to="/operator/plans">plan</TextLink> for the account.
    </Notice>
  );
}
