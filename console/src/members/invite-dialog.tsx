import { useEffect, useId, useState, type SubmitEvent } from 'react';
import { useAction } from '../api/queries.ts';
import { Button } from '../components/button.tsx';
import { Dialog } from '../components/dialog.tsx';
import { Field, TextField } from '../components/field.tsx';
import { faultAt, FormFault } from '../components/form-fault.tsx';
import { Select } from '../components/select.tsx';
import { ShownOnce } from '../components/shown-once.tsx';
import { Time } from '../components/time.tsx';
import { ROLE_CHOICES, ROLES, type Role } from './roles.ts';

interface InviteDialogProps {
  account: { id: string; name: string };
  open: boolean;
  onClose: () => void;
  /** Chosen at first. */
  role?: Role;
  /** On the button that closes it before anybody was invited. */
  cancel?: string;
}

/** Invites somebody to act for an account; the link is shown this once. */
export function InviteDialog({
  account,
  open,
  onClose,
  role = 'member',
  cancel = 'Cancel',
}: InviteDialogProps) {
  const form = useId();
  const invite = useAction('createInvitation', { changes: ['listInvitations'], quiet: true });
  const { data: made = null, reset } = invite;
  useEffect(() => {
    // The link of the last time is gone for good.
    if (open) reset();
  }, [open, reset]);
  return (
    <Dialog
      open={open}
      onClose={onClose}
      modal={made !== null}
      title={made === null ? `Invite somebody to ${account.name}` : 'Hand on this link'}
      hint={
        made === null
          ? 'They get a link that makes them a person of this account. It is good for 7 days.'
          : `Whoever opens it as ${made.email} acts for ${account.name} from then on.`
      }
      actions={
        made === null ? (
          <>
            <Button onClick={onClose}>{cancel}</Button>
            <Button kind="primary" type="submit" form={form} busy={invite.isPending}>
              Make the link
            </Button>
          </>
        ) : (
          <Button kind="primary" onClick={onClose}>
            Done
          </Button>
        )
      }
    >
      {made === null ? (
        <InviteForm
          id={form}
          role={role}
          error={invite.error}
          onInvite={(wanted) => invite.mutate({ body: { account_id: account.id, ...wanted } })}
        />
      ) : (
        <ShownOnce text={made.link} what="link" label="Link of the invitation">
          {made.mailed
            ? `It was also sent to ${made.email}. `
            : 'No e-mail was sent: hand the link on yourself. '}
          It cannot be shown again and expires <Time at={made.expires_at} />. Another one for this address
          makes it void.
        </ShownOnce>
      )}
    </Dialog>
  );
}

interface InviteFormProps {
  id: string;
  role: Role;
  error: ReturnType<typeof useAction<'createInvitation'>>['error'];
  onInvite: (wanted: { email: string; role: Role }) => void;
}

function InviteForm({ id, role: first, error, onInvite }: InviteFormProps) {
  const [email, setEmail] = useState('');
  const [role, setRole] = useState(first);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    onInvite({ email, role });
  };
  return (
    <form id={id} onSubmit={submit} className="space-y-4">
      <TextField
        label="E-mail address"
        type="email"
        name="email"
        required
        autoComplete="off"
        value={email}
        onChange={({ target }) => setEmail(target.value)}
        error={faultAt(error, 'email')}
      />
      <Field label="Role" hint={ROLES[role].meaning}>
        <Select value={role} onChange={setRole} choices={ROLE_CHOICES} />
      </Field>
      <FormFault error={error} fields={['email']} />
    </form>
  );
}
