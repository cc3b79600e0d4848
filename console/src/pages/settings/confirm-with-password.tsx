import type { ReactNode } from 'react';
import { act } from '../../api/act.ts';
import type { ApiError } from '../../api/client.ts';
import { Button } from '../../components/button.tsx';
import { EditDialog } from '../../components/edit-dialog.tsx';
import { FormError } from '../../components/form.tsx';
import { openOverlay } from '../../components/overlays.tsx';
import { PasswordField } from '../../components/password-field.tsx';
import { Notice } from '../../components/states.tsx';
import { useSession } from '../../state/session.tsx';

interface Confirmation {
  title: string;
  children: ReactNode;
  action: string;
  danger?: boolean;
  run: (body: { password?: string }) => Promise<unknown>;
}

/** Asks for the password before security changes. Users without a password only confirm. */
export function confirmWithPassword(question: Confirmation): void {
  void openOverlay((close) => <ConfirmWithPassword {...question} onClose={close} />);
}

function ConfirmWithPassword({ children, run, ...rest }: Confirmation & { onClose: () => void }) {
  const { user } = useSession();
  return (
    <EditDialog
      {...rest}
      disposable
      initial={{ password: '' }}
      submit={({ password }) => run(user.has_password ? { password } : {})}
      renderError={renderError}
    >
      {(_, __, field) => (
        <>
          <div className="space-y-2 text-sm text-ink-2">{children}</div>
          {user.has_password && <PasswordField label="Password" {...field('password')} />}
        </>
      )}
    </EditDialog>
  );
}

const renderError = (error: ApiError) => <ConfirmationError error={error} />;

/**
 * Shows why a confirmation was refused. Users without a password confirm by a recent sign-in; if it is too old, this
 * lets them sign in again and return.
 */
export function ConfirmationError({ error }: { error: ApiError | null }) {
  if (error?.code !== 'fresh_sign_in_required') return <FormError error={error} />;
  const back = encodeURIComponent(location.pathname + location.search);
  const signInAgain = async () => {
    await act('signOut', undefined);
    location.assign(`/sign-in?to=${back}`);
  };
  return (
    <Notice
      tone="warn"
      title="Sign in again to continue"
      action={
        <Button size="small" onClick={signInAgain}>
          Sign in again
        </Button>
      }
    >
      {error.message}
    </Notice>
  );
}
