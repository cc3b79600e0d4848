import { useState } from 'react';
import { useAction, useRead } from '../../api/queries.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Form, FormError } from '../../components/form.tsx';
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
  const reset = useAction('resetPassword', { changes: ['getSession'], quiet: true });
  const first = useFocus<HTMLInputElement>();
  if (reset.isSuccess) {
    return (
      <StandalonePage title="Password changed" hint="You have been signed out on all devices.">
        <ButtonLink kind="primary" to="/sign-in" className="w-full">
          Sign in
        </ButtonLink>
      </StandalonePage>
    );
  }
  if (reset.error?.code === 'invalid_link') return <NoLink used />;
  return (
    <StandalonePage title="Set a new password" hint="This signs you out on all devices.">
      <Form
        error={reset.error}
        onSubmit={() => {
          reset.mutate({ body: { token, password } });
        }}
      >
        <NewPasswordField
          name="password"
          ref={first}
          label="New password"
          known={[]}
          value={password}
          onChange={(event) => setPassword(event.target.value)}
        />
        <FormError error={reset.error} />
        <Button kind="primary" type="submit" className="w-full" busy={reset.isPending}>
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
