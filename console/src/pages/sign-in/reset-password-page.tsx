import { useState } from 'react';
import { useRead } from '../../api/queries.ts';
import { act } from '../../api/act.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Form, FormError, useSubmit } from '../../components/form.tsx';
import { useFocus } from '../../components/focus.ts';
import { StandalonePage } from '../../components/standalone-page.tsx';
import { NewPasswordField } from '../../components/password-field.tsx';
import { useFragmentToken } from '../../state/fragment-token.ts';

/** The page of a password reset link. */
export default function ResetPasswordPage() {
  const token = useFragmentToken();
  return token === '' ? <NoLink used={false} /> : <ResetForm key={token} token={token} />;
}

function ResetForm({ token }: { token: string }) {
  const [password, setPassword] = useState('');
  const [isDone, setDone] = useState(false);
  const { busy, error, submit } = useSubmit();
  const first = useFocus<HTMLInputElement>();
  if (isDone) {
    return (
      <StandalonePage title="Password changed" hint="You have been signed out on all devices.">
        <ButtonLink kind="primary" to="/sign-in" className="w-full">
          Sign in
        </ButtonLink>
      </StandalonePage>
    );
  }
  if (error?.code === 'invalid_link') return <NoLink used />;
  return (
    <StandalonePage title="Set a new password" hint="This signs you out on all devices.">
      <Form
        error={error}
        onSubmit={() =>
          void submit(async () => {
            await act('resetPassword', { body: { token, password } });
            setDone(true);
          })
        }
      >
        <NewPasswordField
          name="password"
          ref={first}
          label="New password"
          value={password}
          onChange={(event) => setPassword(event.target.value)}
        />
        <FormError error={error} />
        <Button kind="primary" type="submit" className="w-full" busy={busy}>
          Set password
        </Button>
      </Form>
    </StandalonePage>
  );
}

function NoLink({ used }: { used: boolean }) {
  const session = useRead('getSession', undefined);
  const canReset = session.data?.sign_in.password_reset === true;
  return (
    <StandalonePage
      title={used ? 'This link is no longer valid' : 'Open your password reset link'}
      hint={
        used
          ? 'It was used, replaced by a newer one, or has expired.'
          : 'Open the link in your password reset email again.'
      }
    >
      <ButtonLink
        kind={used ? 'primary' : 'plain'}
        to={canReset ? '/sign-in?forgot' : '/sign-in'}
        className="w-full"
      >
        {canReset ? 'Request a new link' : 'Go to sign-in'}
      </ButtonLink>
    </StandalonePage>
  );
}
