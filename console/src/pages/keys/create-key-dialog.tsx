import { useId } from 'react';
import { useAction } from '../../api/queries.ts';
import { Dialog, FormActions } from '../../components/dialog.tsx';
import type { CurrentAccount } from '../../state/account.ts';
import { useShowSecret } from '../../state/secrets.tsx';
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
  const form = useId();
  const show = useShowSecret();
  const create = useAction('createKey', {
    changes: ['listKeys'],
    done: ({ name }) => `Key ${name} created`,
    onSuccess: (created) => show((close) => <CreatedKey created={created} onClose={close} />),
    quiet: true,
  });
  const close = () => {
    // Drops the key from memory.
    create.reset();
    onClose();
  };
  return (
    <Dialog
      modal
      open={open}
      onClose={close}
      size="medium"
      title="Create API key"
      hint={`Usage is charged to the account ${account.name}.`}
      actions={<FormActions form={form} action="Create key" busy={create.isPending} onCancel={close} />}
    >
      <KeyForm
        id={form}
        initial={NEW_KEY}
        before={null}
        error={create.error}
        onSubmit={(settings, { admin }) =>
          create.mutate(
            { body: { account_id: account.id, ...(admin && { kind: 'admin' }), ...settings } },
            { onSuccess: close },
          )
        }
      />
    </Dialog>
  );
}
