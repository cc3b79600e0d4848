import { Layers, UserPlus } from 'lucide-react';
import { useState } from 'react';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Page } from '../../components/page.tsx';
import { Empty, Notice } from '../../components/states.tsx';
import { InvitationsCard } from '../../members/invitations-card.tsx';
import { InviteDialog } from '../../members/invite-dialog.tsx';
import { MembersCard } from '../../members/members-card.tsx';
import { useAccount, type CurrentAccount } from '../../shell/account.ts';
import { useSession } from '../../shell/session.tsx';

/** Who acts for the account, and who is invited to. */
export default function MembersPage() {
  const account = useAccount();
  if (account === null) return <NoAccount />;
  return <Members key={account.id} account={account} />;
}

function Members({ account }: { account: CurrentAccount }) {
  const { person } = useSession();
  const [inviting, setInviting] = useState(false);
  const isTheirs = account.role === 'owner' || person.operator;
  return (
    <Page
      title="Members"
      hint={`Who makes keys and sees usage of ${account.name}.`}
      actions={
        isTheirs && (
          <Button
            kind="primary"
            icon={<UserPlus className="size-4" aria-hidden="true" />}
            onClick={() => setInviting(true)}
          >
            Invite
          </Button>
        )
      }
    >
      <div className="space-y-5">
        {!isTheirs && (
          <Notice>
            You are a member of {account.name}. Its owners invite and remove people and change their roles.
          </Notice>
        )}
        <MembersCard account={account} editable={isTheirs} />
        {isTheirs && <InvitationsCard accountId={account.id} />}
      </div>
      {isTheirs && <InviteDialog account={account} open={inviting} onClose={() => setInviting(false)} />}
    </Page>
  );
}

function NoAccount() {
  const { person } = useSession();
  return (
    <Page title="Members">
      <Empty
        icon={Layers}
        title="You act for no account"
        action={person.operator && <ButtonLink to="/operator/accounts">To the accounts</ButtonLink>}
      >
        {person.operator
          ? 'As an operator you can look at the members of any.'
          : 'Somebody who owns one can invite you to it.'}
      </Empty>
    </Page>
  );
}
