import { useId } from 'react';
import { Redirect } from 'wouter';
import type { ItemOf } from '../../api/client.ts';
import { useAction, useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Dialog, FormActions } from '../../components/dialog.tsx';
import { FormError } from '../../components/form.tsx';
import { openConnect } from '../../connect/open-connect.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Skeleton } from '../../components/states.tsx';
import type { CurrentAccount } from '../../state/account.ts';
import { draftOf } from './key-draft.ts';
import { KeyDetails } from './key-details.tsx';
import { KeyForm } from './key-form.tsx';
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
  const form = useId();
  const change = useAction('changeKey', {
    changes: ['listKeys', 'getKey', 'readLimits'],
    done: ({ name }) => `Key ${name} updated`,
    quiet: true,
  });
  const key = read.data ?? listed;
  const rightsOf = useKeyRights();
  const rights = key === undefined ? null : rightsOf(key);
  const isEditing = editing && key !== undefined && rights === 'change';
  const endEdit = () => {
    change.reset();
    onEdit(false);
  };
  if (key !== undefined && key.account_id !== account.id) {
    // The page of another account would change its key.
    const query = new URLSearchParams({ account: key.account_id, key: key.id });
    return <Redirect replace to={`/keys?${query}`} />;
  }
  return (
    <Dialog
      side
      open={id !== null}
      onClose={isEditing ? endEdit : onClose}
      modal={isEditing}
      title={isEditing ? `Edit ${key.name}` : (key?.name ?? 'Key')}
      actions={
        isEditing ? (
          <FormActions form={form} action="Save" busy={change.isPending} onCancel={endEdit} />
        ) : key !== undefined && rights !== null ? (
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
        ) : undefined
      }
    >
      <Loaded
        query={{ data: key, error: read.error, refetch: read.refetch }}
        loading={<Skeleton className="h-64 w-full" />}
      >
        {(loaded) =>
          isEditing ? (
            <KeyForm
              id={form}
              initial={draftOf(loaded)}
              before={loaded}
              error={change.error}
              onSubmit={(settings) =>
                change.mutate({ params: { id: loaded.id }, body: settings }, { onSuccess: endEdit })
              }
            />
          ) : (
            <>
              {/* The form is gone if the key was revoked in the meantime. */}
              {editing && <FormError error={change.error} />}
              <KeyDetails
                apiKey={loaded}
                onEdit={() => onEdit(true)}
                onEndPrevious={() => endPreviousSecret(loaded)}
              />
            </>
          )
        }
      </Loaded>
    </Dialog>
  );
}
