import { Plus } from 'lucide-react';
import { useState } from 'react';
import { Button } from '../../components/button.tsx';
import { Page } from '../../components/page.tsx';
import { Tabs } from '../../components/tabs.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { AccountsList } from './accounts-list.tsx';
import { NewAccount } from './new-account.tsx';
import { UsersList } from './users-list.tsx';

type View = 'accounts' | 'users';

/** Accounts and users. */
export default function AccountsPage() {
  const [query, change] = useQueryState();
  const [creating, setCreating] = useState(false);
  const view: View = query.get('tab') === 'users' ? 'users' : 'accounts';
  return (
    <Page
      title="Accounts"
      hint="Accounts own API keys and have a plan. Users are members of accounts."
      actions={
        <Button
          kind="primary"
          icon={<Plus className="size-4" aria-hidden="true" />}
          onClick={() => setCreating(true)}
        >
          Create account
        </Button>
      }
    >
      <Tabs<View>
        label="Accounts and users"
        value={view}
        onChange={(chosen) =>
          change({ tab: chosen === 'users' ? 'users' : null, q: null, status: null, plan: null })
        }
        tabs={[
          { value: 'accounts', label: 'Accounts', content: <AccountsList onNew={() => setCreating(true)} /> },
          { value: 'users', label: 'Users', content: <UsersList /> },
        ]}
      />
      <NewAccount open={creating} onClose={() => setCreating(false)} />
    </Page>
  );
}
