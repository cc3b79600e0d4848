import type { ComponentProps } from 'react';
import { DraftForm } from './draft-form.tsx';
import { EmailField, TextField } from './field.tsx';
import { useFocus } from './focus.ts';
import { NewPasswordField } from './password-field.tsx';

export interface NewUser {
  name: string;
  email: string;
  password: string;
}

interface NewUserFormProps extends Pick<ComponentProps<typeof DraftForm<NewUser>>, 'action' | 'renderError'> {
  /** Fixed email; default: the user enters one. */
  email?: string;
  submit: (user: NewUser) => Promise<unknown>;
}

export function NewUserForm({ email, ...form }: NewUserFormProps) {
  const first = useFocus<HTMLInputElement>();
  return (
    <DraftForm {...form} initial={{ name: '', email: email ?? '', password: '' }}>
      {(field) => (
        <>
          <TextField
            ref={first}
            label="Name"
            autoComplete="name"
            required
            maxLength={100}
            {...field('name')}
          />
          <EmailField readOnly={email !== undefined} {...field('email')} />
          <NewPasswordField label="Password" {...field('password')} />
        </>
      )}
    </DraftForm>
  );
}
