import { useState } from 'react';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { useFieldErrors } from '../../components/field-errors.ts';
import { NewPasswordField, PasswordField } from '../../components/password-field.tsx';
import { useSession } from '../../state/session.tsx';
import { ConfirmationError } from './confirm-with-password.tsx';

const FIELDS = ['current_password', 'new_password'];

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
  const errorAt = useFieldErrors(change.error);
  return (
    <Card
      title="Password"
      hint={
        user.has_password
          ? 'Changing the password signs you out everywhere else.'
          : 'You sign in with a provider. If you set a password, you can also sign in with your email and password.'
      }
    >
      <form
        className="max-w-md space-y-4"
        onSubmit={(event) => {
          event.preventDefault();
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
            label="Current password"
            value={current}
            onChange={(event) => setCurrent(event.target.value)}
            error={errorAt('current_password', current)}
          />
        )}
        <NewPasswordField
          label="New password"
          known={[user.name, user.email]}
          value={newPassword}
          onChange={(event) => setNewPassword(event.target.value)}
          error={errorAt('new_password', newPassword)}
        />
        <ConfirmationError error={change.error} fields={FIELDS} />
        <Button type="submit" busy={change.isPending}>
          {user.has_password ? 'Change password' : 'Set password'}
        </Button>
      </form>
    </Card>
  );
}
