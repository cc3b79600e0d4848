import { useState } from 'react';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { useSession } from '../../shell/session.tsx';
import { ConfirmWithPassword } from './confirm-with-password.tsx';

/** The way out for good. */
export function DeleteMe() {
  const { accounts } = useSession();
  const [asking, setAsking] = useState(false);
  const remove = useAction('deleteMe', { quiet: true });
  const left = accounts.map(({ name }) => name).join(', ');
  return (
    <Card
      title="Delete yourself"
      hint="Your name, address, password and sessions are forgotten. Accounts and their keys stay."
    >
      <Button onClick={() => setAsking(true)}>Delete me</Button>
      <ConfirmWithPassword
        open={asking}
        onClose={() => setAsking(false)}
        title="Delete yourself?"
        verb="Delete me"
        danger
        action={remove}
        // All that was read goes with the person who read it.
        onDone={() => location.assign('/sign-in')}
      >
        <p>
          You are signed out everywhere and cannot sign in again. This cannot be undone: to come back, you
          have to be invited.
        </p>
        {left !== '' && (
          <p>You no longer act for {left}. Keys that you made go on working; revoke those that are to end.</p>
        )}
        <p>The ledger and the audit log keep what was done, under an id without your name.</p>
      </ConfirmWithPassword>
    </Card>
  );
}
