import { useState } from 'react';
import type { ApiError } from '../../api/client.ts';
import { Button } from '../../components/button.tsx';
import { TextField } from '../../components/field.tsx';
import { useFieldErrors } from '../../components/field-errors.ts';
import { FormError } from '../../components/form-error.tsx';
import { useFocus } from '../../components/focus.ts';
import { NewPasswordField } from '../../components/password-field.tsx';

const FIELDS = ['name', 'email', 'password'];

/** The details of a new user. */
export interface NewUser {
  name: string;
  email: string;
  password: string;
}

interface NewUserFormProps {
  /** Fixed email; default: the user enters one. */
  email?: string;
  /** Text of the button. */
  action: string;
  busy: boolean;
  error: ApiError | null;
  onSubmit: (user: NewUser) => void;
}

/** The form for a new user: name, email and password. */
export function NewUserForm({ email: fixed, action, busy, error, onSubmit }: NewUserFormProps) {
  const [name, setName] = useState('');
  const [typed, setTyped] = useState('');
  const [password, setPassword] = useState('');
  const errorAt = useFieldErrors(error);
  const first = useFocus<HTMLInputElement>();
  const email = fixed ?? typed;
  return (
    <form
      className="space-y-4"
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit({ name, email, password });
      }}
    >
      <TextField
        ref={first}
        label="Name"
        autoComplete="name"
        required
        maxLength={100}
        value={name}
        onChange={(event) => setName(event.target.value)}
        error={errorAt('name', name)}
      />
      <TextField
        label="Email"
        type="email"
        autoComplete="username"
        required
        readOnly={fixed !== undefined}
        value={email}
        onChange={(event) => setTyped(event.target.value)}
        error={errorAt('email', email)}
      />
      <NewPasswordField
        label="Password"
        known={[name, email]}
        value={password}
        onChange={(event) => setPassword(event.target.value)}
        error={errorAt('password', password)}
      />
      <FormError error={error} fields={FIELDS} />
      <Button kind="primary" type="submit" className="w-full" busy={busy}>
        {action}
      </Button>
    </form>
  );
}
