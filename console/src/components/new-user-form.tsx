import { useState } from 'react';
import type { ApiError } from '../api/client.ts';
import { Button } from './button.tsx';
import { TextField } from './field.tsx';
import { Form, FormError } from './form.tsx';
import { useFocus } from './focus.ts';
import { NewPasswordField } from './password-field.tsx';

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
  const first = useFocus<HTMLInputElement>();
  const email = fixed ?? typed;
  return (
    <Form
      error={error}
      onSubmit={() => {
        onSubmit({ name, email, password });
      }}
    >
      <TextField
        name="name"
        ref={first}
        label="Name"
        autoComplete="name"
        required
        maxLength={100}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      <TextField
        name="email"
        label="Email"
        type="email"
        autoComplete="username"
        required
        readOnly={fixed !== undefined}
        value={email}
        onChange={(event) => setTyped(event.target.value)}
      />
      <NewPasswordField
        name="password"
        label="Password"
        value={password}
        onChange={(event) => setPassword(event.target.value)}
      />
      <FormError error={error} />
      <Button kind="primary" type="submit" className="w-full" busy={busy}>
        {action}
      </Button>
    </Form>
  );
}
