import { Plus } from 'lucide-react';
import { useState } from 'react';
import { Button } from '../../components/button.tsx';
import { Page } from '../../components/page.tsx';
import { Tabs } from '../../components/tabs.tsx';
import { useQueryState } from '../../shell/query.ts';
import { AccountsList } from './accounts-list.tsx';
import { NewAccount } from './new-account.tsx';
import { PeopleList } from './people-list.tsx';

type View = 'accounts' | 'people';

/** Everybody whom the service serves: accounts, and the people who act for them. */
export default function AccountsPage() {
  const [query, change] = useQueryState();
  const [making, setMaking] = useState(false);
  const view: View = query.get('tab') === 'people' ? 'people' : 'accounts';
  return (
    <Page
      title="Accounts"
      hint="Who pays, what all of their keys may use together, and the people who act for them."
      actions={
        <Button
          kind="primary"
          icon={<Plus className="size-4" aria-hidden="true" />}
          onClick={() => setMaking(true)}
        >
          New account
        </Button>
      }
    >
      <Tabs<View>
        label="Accounts and people"
        value={view}
        onChange={(chosen) =>
          change({ tab: chosen === 'people' ? 'people' : null, q: null, status: null, plan: null })
        }
        tabs={[
          { value: 'accounts', label: 'Accounts', content: <AccountsList onNew={() => setMaking(true)} /> },
          { value: 'people', label: 'People', content: <PeopleList /> },
        ]}
      />
      <NewAccount open={making} onClose={() => setMaking(false)} />
    </Page>
  );
}
