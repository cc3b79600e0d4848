import { useId, useState } from 'react';
import type { ResponseOf } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Dialog, FormActions } from '../../components/dialog.tsx';
import type { CurrentAccount } from '../../shell/account.ts';
import { CreatedKey } from './created-key.tsx';
import { NEW_KEY } from './key-draft.ts';
import { KeyForm } from './key-form.tsx';

interface CreateKeyDialogProps {
  account: CurrentAccount;
  open: boolean;
  onClose: () => void;
}

/** Creates a key and shows it once. */
export default function CreateKeyDialog({ account, open, onClose }: CreateKeyDialogProps) {
  const [created, setCreated] = useState<ResponseOf<'createKey'> | null>(null);
  return created === null ? (
    <NewKey account={account} open={open} onClose={onClose} onCreated={setCreated} />
  ) : (
    <CreatedKey
      created={created}
      onClose={() => {
        // Drops the key from memory.
        setCreated(null);
        onClose();
      }}
    />
  );
}

function NewKey({
  account,
  open,
  onClose,
  onCreated,
}: CreateKeyDialogProps & { onCreated: (created: ResponseOf<'createKey'>) => void }) {
  const form = useId();
  const create = useAction('createKey', {
    changes: ['listKeys'],
    done: ({ name }) => `Key ${name} created`,
    quiet: true,
  });
  return (
    <Dialog
      open={open}
      onClose={() => {
        create.reset();
        onClose();
      }}
      size="medium"
      title="Create API key"
      hint={`Usage is charged to the account ${account.name}.`}
      actions={
        <FormActions
          form={form}
          action="Create key"
          busy={create.isPending}
          onCancel={() => {
            create.reset();
            onClose();
          }}
        />
      }
    >
      <KeyForm
        id={form}
        initial={NEW_KEY}
        before={null}
        error={create.error}
        onSubmit={(settings, { admin }) =>
          create.mutate(
            {
              body: { account_id: account.id, ...(admin && { kind: 'admin' }), ...settings },
            },
            { onSuccess: onCreated },
          )
        }
      />
    </Dialog>
  );
}
