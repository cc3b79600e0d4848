import { useState } from 'react';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Form } from '../../components/form.tsx';
import { NewPasswordField, PasswordField } from '../../components/password-field.tsx';
import { useSession } from '../../state/session.tsx';
import { ConfirmationError } from './confirm-with-password.tsx';

/** Changes the password, or sets the first one of a user who signed up with a provider. */
export function Password() {
  const { user } = useSession();
  const [current, setCurrent] = useState('');
  const [newPassword, setNewPassword] = useState('');
  const change = useAction('changePassword', {
    changes: ['getSession', 'listSessions'],
    done: 'Password saved. Your other sessions were signed out.',
    quiet: true,
  });
  return (
    <Card
      title="Password"
      hint={
        user.has_password
          ? 'Changing the password signs you out everywhere else.'
          : 'You sign in with a provider. If you set a password, you can also sign in with your email and password.'
      }
    >
      <Form
        error={change.error}
        className="max-w-md space-y-4"
        onSubmit={() => {
          change.mutate(
            {
              body: {
                new_password: newPassword,
                ...(user.has_password && { current_password: current }),
              },
            },
            {
              onSuccess: () => {
                setCurrent('');
                setNewPassword('');
              },
            },
          );
        }}
      >
        {/* Lets password managers identify the user. */}
        <input type="hidden" name="username" autoComplete="username" value={user.email} readOnly />
        {user.has_password && (
          <PasswordField
            name="current_password"
            label="Current password"
            value={current}
            onChange={(event) => setCurrent(event.target.value)}
          />
        )}
        <NewPasswordField
          name="new_password"
          label="New password"
          known={[user.name, user.email]}
          value={newPassword}
          onChange={(event) => setNewPassword(event.target.value)}
        />
        <ConfirmationError error={change.error} />
        <Button type="submit" busy={change.isPending}>
          {user.has_password ? 'Change password' : 'Set password'}
        </Button>
      </Form>
    </Card>
  );
}
