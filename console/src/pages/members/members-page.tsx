import { UserPlus, Users } from 'lucide-react';
import { useState } from 'react';
import { Button } from '../../components/button.tsx';
import { NoAccount } from '../../components/no-account.tsx';
import { Page } from '../../components/page.tsx';
import { Notice } from '../../components/states.tsx';
import { InviteDialog } from '../../members/invite-dialog.tsx';
import { InvitationsCard, MembersCard } from '../../members/members-card.tsx';
import { useAccount, type CurrentAccount } from '../../state/account.ts';
import { useSession } from '../../state/session.tsx';

export default function MembersPage() {
  const account = useAccount();
  if (account === null) return <NoAccount title="Members" icon={Users} />;
  return <Members key={account.id} account={account} />;
}

function Members({ account }: { account: CurrentAccount }) {
  const { user } = useSession();
  const [inviting, setInviting] = useState(false);
  const canManage = account.role === 'owner' || user.operator;
  return (
    <Page
      title="Members"
      hint={`Users with access to ${account.name}`}
      actions={
        canManage && (
          <Button kind="primary" icon={<UserPlus />} onClick={() => setInviting(true)}>
            Invite member
          </Button>
        )
      }
    >
      <div className="space-y-5">
        {!canManage && (
          <Notice>
            You are a member of {account.name}. Only owners and operators can invite and remove members.
          </Notice>
        )}
        <MembersCard account={account} editable={canManage} />
        {canManage && <InvitationsCard accountId={account.id} />}
      </div>
      {canManage && inviting && <InviteDialog account={account} onClose={() => setInviting(false)} />}
    </Page>
  );
}
