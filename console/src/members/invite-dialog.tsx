import { act } from '../api/act.ts';
import type { ResponseOf } from '../api/client.ts';
import { EditDialog } from '../components/edit-dialog.tsx';
import { Field, TextField } from '../components/field.tsx';
import { openOverlay } from '../components/overlays.tsx';
import { OneTimeSecret, SecretDialog } from '../components/secret-dialog.tsx';
import { Select } from '../components/select.tsx';
import { Time } from '../components/time.tsx';
import { ROLE_CHOICES, ROLES, type Role } from './roles.ts';

interface InviteDialogProps {
  account: { id: string; name: string };
  role?: Role;
  cancel?: string;
  onClose: () => void;
}

export function InviteDialog({ account, role = 'member', cancel = 'Cancel', onClose }: InviteDialogProps) {
  return (
    <EditDialog
      title={`Invite a member to ${account.name}`}
      hint="Creates an invitation link that is valid for 7 days."
      action="Create invitation"
      cancel={cancel}
      initial={{ email: '', role }}
      submit={async (wanted) => {
        const created = await act(
          'createInvitation',
          { body: { account_id: account.id, ...wanted } },
          {
            ifLost:
              'No response arrived, so the invitation link is lost. Invite the user again, which replaces it.',
          },
        );
        void openOverlay((close) => <InvitationLink account={account} created={created} onClose={close} />);
      }}
      onClose={onClose}
    >
      {(draft, set, field) => (
        <>
          <TextField label="Email" type="email" required autoComplete="off" {...field('email')} />
          <Field label="Role" hint={ROLES[draft.role].meaning}>
            <Select value={draft.role} onChange={(chosen) => set({ role: chosen })} choices={ROLE_CHOICES} />
          </Field>
        </>
      )}
    </EditDialog>
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
