import { useId, useState } from 'react';
import type { ResponseOf } from '../api/client.ts';
import { useAction } from '../api/queries.ts';
import { Dialog, FormActions } from '../components/dialog.tsx';
import { Field, TextField } from '../components/field.tsx';
import { Form, FormError } from '../components/form.tsx';
import { Select } from '../components/select.tsx';
import { OneTimeSecret } from '../components/one-time-secret.tsx';
import { SecretDialog } from '../components/secret-dialog.tsx';
import { Time } from '../components/time.tsx';
import { useShowSecret } from '../state/secrets.tsx';
import { ROLE_CHOICES, ROLES, type Role } from './roles.ts';

interface InviteDialogProps {
  account: { id: string; name: string };
  open: boolean;
  onClose: () => void;
  /** Initial role. */
  role?: Role;
  /** Text of the cancel button. */
  cancel?: string;
}

/** Invites a user to an account and shows the invitation link once. */
export function InviteDialog({
  account,
  open,
  onClose,
  role = 'member',
  cancel = 'Cancel',
}: InviteDialogProps) {
  const form = useId();
  const show = useShowSecret();
  const invite = useAction('createInvitation', {
    changes: ['listInvitations'],
    onSuccess: (created) =>
      show((close) => <InvitationLink account={account} created={created} onClose={close} />),
    quiet: true,
  });
  const close = () => {
    // Drops the link from memory.
    invite.reset();
    onClose();
  };
  return (
    <Dialog
      modal
      open={open}
      onClose={close}
      title={`Invite a member to ${account.name}`}
      hint="Creates an invitation link that is valid for 7 days."
      actions={
        <FormActions
          form={form}
          action="Create invitation"
          busy={invite.isPending}
          cancel={cancel}
          onCancel={close}
        />
      }
    >
      <InviteForm
        id={form}
        role={role}
        error={invite.error}
        onInvite={(wanted) =>
          invite.mutate({ body: { account_id: account.id, ...wanted } }, { onSuccess: close })
        }
      />
    </Dialog>
  );
}

interface InvitationLinkProps {
  account: InviteDialogProps['account'];
  created: ResponseOf<'createInvitation'>;
  onClose: () => void;
}

function InvitationLink({ account, created, onClose }: InvitationLinkProps) {
  return (
    <SecretDialog
      title="Invitation link"
      hint={`${created.email} joins ${account.name} by opening this link.`}
      what="link"
      ifLost="The link cannot be shown again. If you lose it, invite the user again."
      onClose={onClose}
    >
      {(onCopied) => (
        <OneTimeSecret text={created.link} what="link" label="Invitation link" onCopied={onCopied}>
          {created.mailed
            ? `This link was also emailed to ${created.email}. `
            : 'No email was sent. Share this link with the user yourself. '}
          It is shown only once and expires <Time at={created.expires_at} />. A new invitation for the same
          email address replaces it.
        </OneTimeSecret>
      )}
    </SecretDialog>
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
  const submit = () => {
    onInvite({ email, role });
  };
  return (
    <Form id={id} error={error} onSubmit={submit}>
      <TextField
        label="Email"
        type="email"
        name="email"
        required
        autoComplete="off"
        value={email}
        onChange={({ target }) => setEmail(target.value)}
      />
      <Field label="Role" hint={ROLES[role].meaning}>
        <Select value={role} onChange={setRole} choices={ROLE_CHOICES} />
      </Field>
      <FormError error={error} />
    </Form>
  );
}
