import { MailCheck } from 'lucide-react';
import { useState } from 'react';
import { act } from '../../api/act.ts';
import { Button } from '../../components/button.tsx';
import { TextField } from '../../components/field.tsx';
import { Form, FormError, useSubmit } from '../../components/form.tsx';
import { useFocus } from '../../components/focus.ts';
import { StandalonePage } from '../../components/standalone-page.tsx';

/** Requests a password reset link. The result does not reveal whether the address belongs to a user. */
export function ForgotPassword({ onBack }: { onBack: () => void }) {
  const [email, setEmail] = useState('');
  const [isSent, setSent] = useState(false);
  const { busy, error, submit } = useSubmit();
  const first = useFocus<HTMLInputElement>();
  if (isSent) {
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
        error={error}
        onSubmit={() =>
          void submit(async () => {
            await act('forgotPassword', { body: { email } });
            setSent(true);
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
          value={email}
          onChange={(event) => setEmail(event.target.value)}
        />
        <FormError error={error} />
        <Button kind="primary" type="submit" className="w-full" busy={busy}>
          Send reset link
        </Button>
        <Button kind="quiet" className="w-full" onClick={onBack}>
          Back to sign-in
        </Button>
      </Form>
    </StandalonePage>
  );
}
