import { useState } from 'react';
import { act } from '../../api/act.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { TextField } from '../../components/field.tsx';
import { Form, FormError, useSubmit } from '../../components/form.tsx';
import { Time } from '../../components/time.tsx';
import { useSession } from '../../state/session.tsx';
import { leave } from '../../state/user-storage.ts';
import { confirmWithPassword } from './confirm-with-password.tsx';

/** Name and email of the user. */
export function Profile() {
  const { user } = useSession();
  const [name, setName] = useState(user.name);
  const { busy, error, submit } = useSubmit();
  return (
    <Card
      title="Profile"
      hint={
        <>
          Joined <Time at={user.created_at} />
        </>
      }
      actions={user.operator && <Badge tone="accent">Operator</Badge>}
    >
      <Form
        error={error}
        className="max-w-md space-y-4"
        onSubmit={() =>
          void submit(async () =>
            setName((await act('changeMe', { body: { name } }, { done: 'Name changed' })).name),
          )
        }
      >
        <TextField
          name="name"
          label="Name"
          autoComplete="name"
          required
          maxLength={100}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
        <TextField
          label="Email"
          type="email"
          readOnly
          value={user.email}
          hint="Used to sign in. Cannot be changed."
        />
        <FormError error={error} />
        <Button type="submit" busy={busy} disabled={name.trim() === user.name}>
          Save
        </Button>
      </Form>
    </Card>
  );
}

/** Deletes the user. */
export function DeleteMe() {
  const { accounts, user } = useSession();
  const left = accounts.map(({ name }) => name).join(', ');
  const ask = () =>
    confirmWithPassword({
      title: 'Delete your user?',
      action: 'Delete user',
      danger: true,
      run: async (body) => {
        await act('deleteMe', { body });
        await leave(user.id);
      },
      children: (
        <>
          <p>
            You are signed out everywhere and can no longer sign in. This cannot be undone; to return, you
            need a new invitation.
          </p>
          {left !== '' && (
            <p>You lose access to {left}. Keys that you created keep working until they are revoked.</p>
          )}
          <p>The audit log keeps your actions under your user ID, without your name.</p>
        </>
      ),
    });
  return (
    <Card
      title="Delete user"
      hint="Deletes your name, email, password and sessions. The accounts you belong to, and their keys, are kept."
    >
      <Button onClick={ask}>Delete user</Button>
    </Card>
  );
}
