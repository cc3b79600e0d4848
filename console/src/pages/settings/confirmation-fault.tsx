import type { ApiError } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { FormFault } from '../../components/form-fault.tsx';
import { Notice } from '../../components/states.tsx';

/**
 * Why something that takes a confirmation was refused. People without a password confirm by having signed in a moment
 * ago; where that is too long ago, this leads through the door again and back.
 */
export function ConfirmationFault({ error, fields }: { error: ApiError | null; fields: readonly string[] }) {
  const signOut = useAction('signOut');
  if (error?.code !== 'fresh_sign_in_required') return <FormFault error={error} fields={fields} />;
  const back = encodeURIComponent(location.pathname + location.search);
  return (
    <Notice
      tone="warn"
      title="Sign in again first"
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
