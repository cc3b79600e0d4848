import { useState } from 'react';
import { Redirect } from 'wouter';
import { act } from '../../api/act.ts';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { openConnect } from '../../connect/open-connect.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { EditDialog } from '../../components/edit-dialog.tsx';
import { useWasTrue } from '../../components/opening.ts';
import { Loaded } from '../../components/loaded.tsx';
import { Skeleton } from '../../components/states.tsx';
import type { CurrentAccount } from '../../state/account.ts';
import { draftOf, keyErrors, settingsOf } from './key-draft.ts';
import { KeyDetails } from './key-details.tsx';
import { KeyFields } from './key-form.tsx';
import { useKeyRights } from './key-state.tsx';
import { revokeKey } from './revoke-key.tsx';
import { endPreviousSecret, rotateKey } from './rotate-key.tsx';

type Key = ItemOf<'listKeys'>;

interface KeyDialogProps {
  account: CurrentAccount;
  /** Id of the open key; null: closed. */
  id: string | null;
  /** The key from the list, shown until its details are loaded. */
  listed: Key | undefined;
  editing: boolean;
  onEdit: (editing: boolean) => void;
  onClose: () => void;
}

/** A drawer with one key, to view, edit, rotate or revoke it. */
export default function KeyDialog({ account, id, listed, editing, onEdit, onClose }: KeyDialogProps) {
  const read = useRead('getKey', { params: { id: id ?? '' } }, { enabled: id !== null });
  const key = read.data ?? listed;
  const rightsOf = useKeyRights();
  const rights = key === undefined ? null : rightsOf(key);
  // The form stays if the key is revoked in the meantime, and shows why it cannot be saved.
  const mayEdit = useWasTrue(editing && rights === 'change');
  if (key !== undefined && key.account_id !== account.id) {
    // The page of another account would change its key.
    const query = new URLSearchParams({ account: key.account_id, key: key.id });
    return <Redirect replace to={`/keys?${query}`} />;
  }
  return (
    <Dialog
      side
      open={id !== null}
      onClose={onClose}
      title={key?.name ?? 'Key'}
      actions={
        key !== undefined &&
        rights !== null && (
          <>
            {key.kind === 'caller' && key.status === 'live' && (
              <Button onClick={() => openConnect({ keyId: key.id })}>Connect</Button>
            )}
            {rights === 'change' && key.purpose === 'api' && (
              <Button onClick={() => void rotateKey(key)}>Rotate</Button>
            )}
            <Button kind="danger" onClick={() => revokeKey(key)}>
              Revoke key
            </Button>
          </>
        )
      }
    >
      <Loaded
        query={{ data: key, error: read.error, refetch: read.refetch }}
        loading={<Skeleton className="h-64 w-full" />}
      >
        {(loaded) => (
          <KeyDetails
            apiKey={loaded}
            onEdit={() => onEdit(true)}
            onEndPrevious={() => endPreviousSecret(loaded)}
          />
        )}
      </Loaded>
      {editing && mayEdit && read.data !== undefined && (
        <EditKey apiKey={read.data} onClose={() => onEdit(false)} />
      )}
    </Dialog>
  );
}

function EditKey({ apiKey, onClose }: { apiKey: Key; onClose: () => void }) {
  const [before] = useState(apiKey);
  return (
    <EditDialog
      side
      title={`Edit ${before.name}`}
      action="Save"
      initial={draftOf(before)}
      check={(draft) => keyErrors(draft, Date.now())}
      submit={(draft, changed) =>
        act(
          'changeKey',
          { params: { id: before.id }, body: settingsOf(draft, changed, Date.now()) },
          { done: ({ name }) => `Key ${name} updated` },
        )
      }
      onClose={onClose}
    >
      {(draft, set, invalid) => <KeyFields draft={draft} set={set} invalid={invalid} before={before} />}
    </EditDialog>
  );
}
