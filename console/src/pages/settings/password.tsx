import { useState } from 'react';
import { act } from '../../api/act.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Form, useSubmit } from '../../components/form.tsx';
import { NewPasswordField, PasswordField } from '../../components/password-field.tsx';
import { useSession } from '../../state/session.tsx';
import { ConfirmationError } from './confirm-with-password.tsx';

/** Changes the password, or sets the first one of a user who signed up with a provider. */
export function Password() {
  const { user } = useSession();
  const [current, setCurrent] = useState('');
  const [newPassword, setNewPassword] = useState('');
  const { busy, error, submit } = useSubmit();
  const change = async () => {
    await act(
      'changePassword',
      { body: { new_password: newPassword, ...(user.has_password && { current_password: current }) } },
      { done: 'Password saved. Your other sessions were signed out.' },
    );
    setCurrent('');
    setNewPassword('');
  };
  return (
    <Card
      title="Password"
      hint={
        user.has_password
          ? 'Changing the password signs you out everywhere else.'
          : 'You sign in with a provider. If you set a password, you can also sign in with your email and password.'
      }
    >
      <Form error={error} className="max-w-md space-y-4" onSubmit={() => void submit(change)}>
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
          value={newPassword}
          onChange={(event) => setNewPassword(event.target.value)}
        />
        <ConfirmationError error={error} />
        <Button type="submit" busy={busy}>
          {user.has_password ? 'Change password' : 'Set password'}
        </Button>
      </Form>
    </Card>
  );
}
