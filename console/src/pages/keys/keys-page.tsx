import { KeyRound, Plus } from 'lucide-react';
import { lazy, Suspense, useMemo } from 'react';
import { useList, useMore } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Page } from '../../components/page.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { EmptyState, Notice } from '../../components/states.tsx';
import { useAccount, type CurrentAccount } from '../../state/account.ts';
import { useQueryState } from '../../state/url-query.ts';
import { DataAge } from '../../components/updated-at.tsx';
import { NoAccount } from '../../components/no-account.tsx';
import { useAccountStatus } from '../../state/session.tsx';
import { useOpening, useWasTrue } from '../../components/opening.ts';
import { KeysCard } from './keys-card.tsx';

const CreateKeyDialog = lazy(() => import('./create-key-dialog.tsx'));
const KeyDialog = lazy(() => import('./key-dialog.tsx'));

/** The API keys of the current account. */
export default function KeysPage() {
  const account = useAccount();
  if (account === null) return <NoAccount title="API keys" icon={KeyRound} />;
  return <Keys key={account.id} account={account} />;
}

/** Maximum page size of the API. */
const AT_ONCE = 1000;

function Keys({ account }: { account: CurrentAccount }) {
  const [query, change] = useQueryState();
  const list = useList('listKeys', { query: { account_id: account.id, limit: AT_ONCE } });
  const { data, hasMore, error } = list;
  // Search and sorting need all keys, so all pages are loaded.
  useMore(true, list);
  const keys = useMemo(() => data?.toReversed(), [data]);
  const isActive = useAccountStatus(account.id) === 'active';
  const create = isActive ? () => change({ create: '1' }) : null;
  const opened = query.get('key');
  const isCreating = isActive && query.get('create') !== null;
  const wasOpened = useWasTrue(opened !== null);
  const opening = useOpening(opened);
  return (
    <Page
      title="API keys"
      hint="Apps authenticate with a key. Each key is shown only once, when it is created."
      actions={
        keys?.length !== 0 && (
          <>
            <DataAge operations={['listKeys', 'readUsage']} />
            {create && (
              <Button kind="primary" icon={<Plus className="size-4" aria-hidden="true" />} onClick={create}>
                Create key
              </Button>
            )}
          </>
        )
      }
    >
      <NotActive account={account} />
      {keys !== undefined && error !== null && (
        <div className="mb-4">
          <Notice tone="bad" action={<Button onClick={list.refetch}>Try again</Button>}>
            Could not load all keys: {error.message}
          </Notice>
        </div>
      )}
      <Loaded
        card
        query={{ data: hasMore && error === null ? undefined : keys, error, refetch: list.refetch }}
        empty={
          <Card>
            <FirstKey onCreate={create} />
          </Card>
        }
      >
        {(all) => <KeysCard account={account} keys={all} onCreate={create} />}
      </Loaded>
      <Suspense>
        {isCreating && (
          <CreateKeyDialog account={account} onClose={() => change({ create: null }, { replace: true })} />
        )}
        {wasOpened && (
          <KeyDialog
            key={opening}
            account={account}
            id={opened}
            listed={keys?.find(({ id }) => id === opened)}
            editing={query.get('edit') !== null}
            onEdit={(editing) => change({ edit: editing ? '1' : null }, { replace: !editing })}
            onClose={() => change({ key: null, edit: null })}
          />
        )}
      </Suspense>
    </Page>
  );
}

/** `onCreate` null: no key can be created. */
function FirstKey({ onCreate }: { onCreate: (() => void) | null }) {
  if (onCreate === null) return <EmptyState icon={KeyRound} title="No API keys" />;
  return (
    <EmptyState
      icon={KeyRound}
      title="Create your first API key"
      action={
        <Button kind="primary" icon={<Plus className="size-4" aria-hidden="true" />} onClick={onCreate}>
          Create key
        </Button>
      }
    >
      Use it with any OpenAI-compatible client. You get the key and example requests in curl, Python and
      TypeScript.
    </EmptyState>
  );
}

/** Warns that requests of a suspended or closed account are refused, and that it cannot have new keys. */
function NotActive({ account }: { account: CurrentAccount }) {
  const status = useAccountStatus(account.id);
  if (status === 'active') return null;
  return (
    <div className="mb-4">
      <Notice tone="warn" title={`This account is ${status}`}>
        No keys can be created, and requests with its keys are refused
        {status === 'suspended' ? ' until an operator resumes the account' : ''}.
      </Notice>
    </div>
  );
}
