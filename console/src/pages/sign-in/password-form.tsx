import { useState } from 'react';
import { act } from '../../api/act.ts';
import { readSession } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { TextField } from '../../components/field.tsx';
import { Form, FormError, useSubmit } from '../../components/form.tsx';
import { useFocus } from '../../components/focus.ts';
import { PasswordField } from '../../components/password-field.tsx';

/** The sign-in form. The updated session then determines the next step. */
export function PasswordForm({
  email: fixed,
  onForgot,
  onSecondFactor,
}: {
  /** Fixed email; default: the user enters one. */
  email?: string;
  /** Null: password reset is not available. */
  onForgot: (() => void) | null;
  /** Called if the password was correct and a code is required. */
  onSecondFactor?: () => void;
}) {
  const [typed, setTyped] = useState('');
  const [password, setPassword] = useState('');
  const { busy, error, submit } = useSubmit();
  const first = useFocus<HTMLInputElement>(fixed === undefined);
  const email = fixed ?? typed;
  return (
    <Form
      error={error}
      onSubmit={() =>
        void submit(async () => {
          const { status } = await act('signIn', { body: { email, password } });
          if (status === 'second_factor') onSecondFactor?.();
          await readSession();
        })
      }
    >
      <TextField
        name="email"
        ref={first}
        label="Email"
        type="email"
        autoComplete="username"
        required
        readOnly={fixed !== undefined}
        value={email}
        onChange={(event) => setTyped(event.target.value)}
      />
      <PasswordField
        name="password"
        label="Password"
        value={password}
        onChange={(event) => setPassword(event.target.value)}
        aside={
          onForgot && (
            <button
              type="button"
              className="font-medium text-accent underline-offset-2 hover:underline"
              onClick={onForgot}
            >
              Forgot password?
            </button>
          )
        }
      />
      <FormError error={error} />
      <Button kind="primary" type="submit" className="w-full" busy={busy}>
        Sign in
      </Button>
    </Form>
  );
}
