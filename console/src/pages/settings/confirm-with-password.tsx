import { useId, useState, type ReactNode } from 'react';
import type { ApiError } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Dialog, FormActions } from '../../components/dialog.tsx';
import { Form, FormError } from '../../components/form.tsx';
import { PasswordField } from '../../components/password-field.tsx';
import { Notice } from '../../components/states.tsx';
import { useSession } from '../../state/session.tsx';

/** A `useAction` result for an operation that takes the user's password in its body. */
interface Confirmed<Result> {
  mutate: (given: { body: { password?: string } }, options: { onSuccess: (answer: Result) => void }) => void;
  isPending: boolean;
  error: ApiError | null;
  reset: () => void;
}

interface ConfirmWithPasswordProps<Result> {
  open: boolean;
  onClose: () => void;
  title: string;
  /** Consequences of the action. */
  children: ReactNode;
  /** The verb on the button. */
  verb: string;
  danger?: boolean;
  action: Confirmed<Result>;
  onDone: (answer: Result) => void;
}

/** Asks for the password before security changes. Users without a password only confirm. */
export function ConfirmWithPassword<Result>(props: ConfirmWithPasswordProps<Result>) {
  const { open, onClose, title, verb, danger = false, action } = props;
  const form = useId();
  const close = () => {
    action.reset();
    onClose();
  };
  return (
    <Dialog
      modal
      open={open}
      onClose={close}
      title={title}
      actions={
        <FormActions form={form} action={verb} busy={action.isPending} danger={danger} onCancel={close} />
      }
    >
      <Confirmation id={form} {...props} />
    </Dialog>
  );
}

/** Mounted inside the dialog, so that closing it drops the password. */
function Confirmation<Result>({
  id,
  children,
  action,
  onDone,
}: ConfirmWithPasswordProps<Result> & { id: string }) {
  const { user } = useSession();
  const [password, setPassword] = useState('');
  return (
    <Form
      id={id}
      error={action.error}
      onSubmit={() => {
        action.mutate({ body: user.has_password ? { password } : {} }, { onSuccess: onDone });
      }}
    >
      <div className="space-y-2 text-sm text-ink-2">{children}</div>
      {user.has_password && (
        <PasswordField
          name="password"
          label="Password"
          value={password}
          onChange={(event) => setPassword(event.target.value)}
        />
      )}
      <ConfirmationError error={action.error} />
    </Form>
  );
}

/**
 * Shows why a confirmation was refused. Users without a password confirm by a recent sign-in; if it is too old, this
 * lets them sign in again and return.
 */
export function ConfirmationError({ error }: { error: ApiError | null }) {
  const signOut = useAction('signOut');
  if (error?.code !== 'fresh_sign_in_required') return <FormError error={error} />;
  const back = encodeURIComponent(location.pathname + location.search);
  return (
    <Notice
      tone="warn"
      title="Sign in again to continue"
      action={
        <Button
          size="small"
          busy={signOut.isPending || signOut.isSuccess}
          onClick={() =>
            signOut.mutate(undefined, { onSuccess: () => location.assign(`/sign-in?to=${back}`) })
          }
        >
          Sign in again
        </Button>
      }
    >
      {error.message}
    </Notice>
  );
}
