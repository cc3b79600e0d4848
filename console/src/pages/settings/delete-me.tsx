import { useState } from 'react';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { useSession } from '../../state/session.tsx';
import { leave } from '../../state/user-storage.ts';
import { ConfirmWithPassword } from './confirm-with-password.tsx';

/** Deletes the user account. */
export function DeleteMe() {
  const { accounts, user } = useSession();
  const [asking, setAsking] = useState(false);
  const remove = useAction('deleteMe', { quiet: true });
  const left = accounts.map(({ name }) => name).join(', ');
  return (
    <Card
      title="Delete user account"
      hint="Deletes your name, email, password and sessions. The accounts you belong to, and their keys, are kept."
    >
      <Button onClick={() => setAsking(true)}>Delete user account</Button>
      <ConfirmWithPassword
        open={asking}
        onClose={() => setAsking(false)}
        title="Delete your user account?"
        verb="Delete user account"
        danger
        action={remove}
        onDone={() => leave(user.id)}
      >
        <p>
          You are signed out everywhere and can no longer sign in. This cannot be undone; to return, you need
          a new invitation.
        </p>
        {left !== '' && (
          <p>You lose access to {left}. Keys that you created keep working until they are revoked.</p>
        )}
        <p>The audit log keeps your actions under your user ID, without your name.</p>
      </ConfirmWithPassword>
    </Card>
  );
}
