import type { ApiError } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { FormError } from '../../components/form-error.tsx';
import { Notice } from '../../components/states.tsx';

/**
 * Shows why a confirmation was refused. Users without a password confirm by a recent sign-in; if it is too old, this
 * lets them sign in again and return.
 */
export function ConfirmationError({ error, fields }: { error: ApiError | null; fields: readonly string[] }) {
  const signOut = useAction('signOut');
  if (error?.code !== 'fresh_sign_in_required') return <FormError error={error} fields={fields} />;
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
