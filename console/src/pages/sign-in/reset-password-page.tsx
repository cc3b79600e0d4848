import { useState } from 'react';
import { act } from '../../api/act.ts';
import { ApiError } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { ButtonLink } from '../../components/button.tsx';
import { DraftForm } from '../../components/draft-form.tsx';
import { useFocus } from '../../components/focus.ts';
import { NewPasswordField } from '../../components/password-field.tsx';
import { StandalonePage } from '../../components/standalone-page.tsx';
import { useFragmentToken } from '../../state/fragment-token.ts';

export default function ResetPasswordPage() {
  const token = useFragmentToken();
  return token === '' ? <NoLink used={false} /> : <ResetForm key={token} token={token} />;
}

function ResetForm({ token }: { token: string }) {
  const [isDone, setDone] = useState(false);
  const [isInvalid, setInvalid] = useState(false);
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
  if (isInvalid) return <NoLink used />;
  return (
    <StandalonePage title="Set a new password" hint="This signs you out on all devices.">
      <DraftForm
        action="Set password"
        initial={{ password: '' }}
        submit={async ({ password }) => {
          try {
            await act('resetPassword', { body: { token, password } });
            setDone(true);
          } catch (error) {
            if (!(error instanceof ApiError && error.code === 'invalid_link')) throw error;
            setInvalid(true);
          }
        }}
      >
        {(field) => <NewPasswordField ref={first} label="New password" {...field('password')} />}
      </DraftForm>
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
