import { MailCheck } from 'lucide-react';
import { useState } from 'react';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { TextField } from '../../components/field.tsx';
import { Form, FormError } from '../../components/form.tsx';
import { useFocus } from '../../components/focus.ts';
import { StandalonePage } from '../../components/standalone-page.tsx';

/** Requests a password reset link. The result does not reveal whether the address belongs to a user. */
export function ForgotPassword({ onBack }: { onBack: () => void }) {
  const [email, setEmail] = useState('');
  const forgot = useAction('forgotPassword', { quiet: true });
  const first = useFocus<HTMLInputElement>();
  if (forgot.isSuccess) {
    return (
      <StandalonePage title="Check your email">
        <div role="status" className="flex gap-3 text-sm text-ink-2">
          <MailCheck className="mt-0.5 size-5 shrink-0 text-good" aria-hidden="true" />
          <p>
            If a user with the email <strong className="font-medium break-words text-ink">{email}</strong>{' '}
            exists, we have sent a password reset link.
          </p>
        </div>
        <Button className="mt-6 w-full" onClick={onBack}>
          Back to sign-in
        </Button>
      </StandalonePage>
    );
  }
  return (
    <StandalonePage title="Reset your password" hint="Enter your email to receive a password reset link.">
      <Form
        error={forgot.error}
        onSubmit={() => {
          forgot.mutate({ body: { email } });
        }}
      >
        <TextField
          name="email"
          ref={first}
          label="Email"
          type="email"
          autoComplete="username"
          required
          value={email}
          onChange={(event) => setEmail(event.target.value)}
        />
        <FormError error={forgot.error} />
        <Button kind="primary" type="submit" className="w-full" busy={forgot.isPending}>
          Send reset link
        </Button>
        <Button kind="quiet" className="w-full" onClick={onBack}>
          Back to sign-in
        </Button>
      </Form>
    </StandalonePage>
  );
}
