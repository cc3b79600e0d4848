import { MailCheck } from 'lucide-react';
import { useState } from 'react';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { TextField } from '../../components/field.tsx';
import { faultAt, FormFault } from '../../components/form-fault.tsx';
import { useFocus } from '../../components/focus.ts';
import { Front } from '../../components/front.tsx';

const FIELDS = ['email'];

/** Asks for a link to a new password. It says the same whether somebody has the address or not. */
export function ForgotPassword({ onBack }: { onBack: () => void }) {
  const [email, setEmail] = useState('');
  const forgot = useAction('forgotPassword', { quiet: true });
  const first = useFocus<HTMLInputElement>();
  if (forgot.isSuccess) {
    return (
      <Front title="Look into your mail">
        <div role="status" className="flex gap-3 text-sm text-ink-2">
          <MailCheck className="mt-0.5 size-5 shrink-0 text-good" aria-hidden="true" />
          <p>
            If somebody has the address <strong className="font-medium break-words text-ink">{email}</strong>,
            a link to a new password is on its way there.
          </p>
        </div>
        <Button className="mt-6 w-full" onClick={onBack}>
          Back to signing in
        </Button>
      </Front>
    );
  }
  return (
    <Front title="Forgot password" hint="We send you a link to a new one.">
      <form
        className="space-y-4"
        onSubmit={(event) => {
          event.preventDefault();
          forgot.mutate({ body: { email } });
        }}
      >
        <TextField
          ref={first}
          label="E-mail"
          type="email"
          autoComplete="username"
          required
          value={email}
          onChange={(event) => setEmail(event.target.value)}
          error={faultAt(forgot.error, 'email')}
        />
        <FormFault error={forgot.error} fields={FIELDS} />
        <Button kind="primary" type="submit" className="w-full" busy={forgot.isPending}>
          Send the link
        </Button>
        <Button kind="quiet" className="w-full" onClick={onBack}>
          Back to signing in
        </Button>
      </form>
    </Front>
  );
}
