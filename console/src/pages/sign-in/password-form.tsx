import { useState } from 'react';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { TextField } from '../../components/field.tsx';
import { useFieldErrors } from '../../components/field-errors.ts';
import { FormError } from '../../components/form-error.tsx';
import { useFocus } from '../../components/focus.ts';
import { PasswordField } from '../../components/password-field.tsx';
import { useSigningIn } from './signing-in.ts';

const FIELDS = ['email', 'password'];

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
  const signIn = useAction('signIn', { changes: ['getSession'], quiet: true });
  const { busy, error } = useSigningIn(signIn);
  const errorAt = useFieldErrors(error);
  const first = useFocus<HTMLInputElement>(fixed === undefined);
  const email = fixed ?? typed;
  return (
    <form
      className="space-y-4"
      onSubmit={(event) => {
        event.preventDefault();
        signIn.mutate(
          { body: { email, password } },
          { onSuccess: ({ status }) => status === 'second_factor' && onSecondFactor?.() },
        );
      }}
    >
      <TextField
        ref={first}
        label="Email"
        type="email"
        autoComplete="username"
        required
        readOnly={fixed !== undefined}
        value={email}
        onChange={(event) => setTyped(event.target.value)}
        error={errorAt('email', email)}
      />
      <PasswordField
        label="Password"
        value={password}
        onChange={(event) => setPassword(event.target.value)}
        error={errorAt('password', password)}
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
      <FormError error={error} fields={FIELDS} />
      <Button kind="primary" type="submit" className="w-full" busy={busy}>
        Sign in
      </Button>
    </form>
  );
}
