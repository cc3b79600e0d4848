import { KeyRound, Layers, Plus } from 'lucide-react';
import { useEffect, useMemo } from 'react';
import { useList } from '../../api/queries.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Page } from '../../components/page.tsx';
import { Empty, Failed, Notice, SkeletonRows } from '../../components/states.tsx';
import { useAccount, type CurrentAccount } from '../../shell/account.ts';
import { useQueryState } from '../../shell/query.ts';
import { useSession } from '../../shell/session.tsx';
import { CreateKeyDialog } from './create-key-dialog.tsx';
import { KeyDialog } from './key-dialog.tsx';
import { KeysCard } from './keys-card.tsx';

/** The keys of the account in use: made, looked at, changed and revoked here. */
export default function KeysPage() {
  const account = useAccount();
  if (account === null) {
    return (
      <Page title="API keys">
        <Card>
          <Empty
            icon={Layers}
            title="You act for no account"
            action={<ButtonLink to="/operator/accounts">To the accounts</ButtonLink>}
          >
            Keys belong to an account. Choose one among all accounts, or make one.
          </Empty>
        </Card>
      </Page>
    );
  }
  return <Keys key={account.id} account={account} />;
}

/** The most that one page of the list holds. */
const AT_ONCE = 1000;

function Keys({ account }: { account: CurrentAccount }) {
  const [query, change] = useQueryState();
  const list = useList('listKeys', { query: { account_id: account.id, limit: AT_ONCE } });
  const { items, hasMore, isReadingMore, more, error } = list;
  useEffect(() => {
    // Search and order are those of all keys: they are all read, a thousand at a time.
    if (hasMore && !isReadingMore && error === null) more();
  }, [hasMore, isReadingMore, more, error]);
  const keys = useMemo(() => items?.toReversed(), [items]);
  const create = () => change({ create: '1' });
  const opened = query.get('key');
  return (
    <Page
      title="API keys"
      hint="A key is what a program calls the service with. It is shown once, when it is made."
      actions={
        keys !== undefined &&
        keys.length > 0 && (
          <Button kind="primary" icon={<Plus className="size-4" aria-hidden="true" />} onClick={create}>
            Create key
          </Button>
        )
      }
    >
      <NotActive account={account} />
      {keys !== undefined && error !== null && (
        <div className="mb-4">
          <Notice tone="bad" action={<Button onClick={list.refetch}>Try again</Button>}>
            The keys could not be read anew, or not all of them: {error.message}
          </Notice>
        </div>
      )}
      {keys === undefined || (hasMore && error === null) ? (
        <Card flush>{error === null ? <SkeletonRows /> : <Failed error={error} retry={list.refetch} />}</Card>
      ) : keys.length === 0 ? (
        <Card>
          <FirstKey onCreate={create} />
        </Card>
      ) : (
        <KeysCard account={account} keys={keys} onCreate={create} />
      )}
      <CreateKeyDialog
        account={account}
        open={query.get('create') !== null}
        onClose={() => change({ create: null }, { replace: true })}
      />
      <KeyDialog
        id={opened}
        listed={keys?.find(({ id }) => id === opened)}
        editing={query.get('edit') !== null}
        onEdit={(editing) => change({ edit: editing ? '1' : null }, { replace: !editing })}
        onClose={() => change({ key: null, edit: null })}
      />
    </Page>
  );
}

function FirstKey({ onCreate }: { onCreate: () => void }) {
  return (
    <Empty
      icon={KeyRound}
      title="Make the first key"
      action={
        <Button kind="primary" icon={<Plus className="size-4" aria-hidden="true" />} onClick={onCreate}>
          Create key
        </Button>
      }
    >
      With it a program calls this service through any client of the OpenAI API. You get the key and a first
      call in curl, Python and TypeScript, ready to run.
    </Empty>
  );
}

/** Says so where no key of the account opens anything. */
function NotActive({ account }: { account: CurrentAccount }) {
  const { accounts } = useSession();
  const status = accounts.find(({ id }) => id === account.id)?.status ?? 'active';
  if (status === 'active') return null;
  return (
    <div className="mb-4">
      <Notice tone="warn" title={`This account is ${status}`}>
        None of its keys opens anything{status === 'suspended' ? ' until an operator lets it go on' : ''}.
      </Notice>
    </div>
  );
}
