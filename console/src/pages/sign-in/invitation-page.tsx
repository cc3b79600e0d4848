import { useQuery } from '@tanstack/react-query';
import { useLocation } from 'wouter';
import { act, orToast } from '../../api/act.ts';
import { call, type ApiError, type ResponseOf } from '../../api/client.ts';
import { readSession, useRead } from '../../api/queries.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { FormError, useSubmit } from '../../components/form.tsx';
import { NewUserForm } from '../../components/new-user-form.tsx';
import { StandalonePage } from '../../components/standalone-page.tsx';
import { ErrorState, Skeletons } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { rememberAccount } from '../../state/account.ts';
import { useFragmentToken } from '../../state/fragment-token.ts';
import { clearStored } from '../../state/user-storage.ts';
import { PasswordForm, Providers } from './password-form.tsx';
import { SecondFactor } from './second-factor.tsx';

export default function InvitationPage() {
  const token = useFragmentToken();
  return token === '' ? <NoInvitation used={false} /> : <Invitation key={token} token={token} />;
}

function Invitation({ token }: { token: string }) {
  const session = useRead('getSession', undefined);
  // A POST that changes nothing: the token is in the body to keep it out of URLs.
  const read = useQuery<ResponseOf<'getInvitation'>, ApiError>({
    queryKey: ['getInvitation', token],
    queryFn: ({ signal }) => call('getInvitation', { body: { token } }, signal),
    staleTime: Infinity,
    gcTime: 0,
  });
  const { data: invitation, error } = read;
  if (error?.code === 'invalid_link') return <NoInvitation used />;
  const fault = error ?? session.error;
  if (session.data === undefined || invitation === undefined) {
    return (
      <StandalonePage title="Invitation">
        {fault === null ? (
          <Skeletons heights={['h-11', 'h-9']} />
        ) : (
          <ErrorState
            error={fault}
            retry={() => {
              void read.refetch();
              void session.refetch();
            }}
          />
        )}
      </StandalonePage>
    );
  }
  return <Accept token={token} session={session.data} invitation={invitation} />;
}

interface AcceptProps {
  token: string;
  session: ResponseOf<'getSession'>;
  invitation: ResponseOf<'getInvitation'>;
}

/** Shows the next step: sign out, sign in, create a user, or accept. */
function Accept({ token, session, invitation }: AcceptProps) {
  const [, navigate] = useLocation();
  const { busy, error, submit } = useSubmit();
  const accept = async (user: { name?: string; password?: string }) => {
    const joined = { done: `You joined ${invitation.account_name}` };
    const { account_id: id } = await act('acceptInvitation', { body: { token, ...user } }, joined);
    rememberAccount(id);
    // The console shows only accounts of the session.
    await readSession();
    navigate(`/keys?account=${encodeURIComponent(id)}`);
  };
  const signOut = async () => {
    await act('signOut', undefined);
    if (session.user !== null) await clearStored(session.user.id);
    await readSession();
  };
  const { user, sign_in: signIn } = session;
  const isTheirs = user?.email.toLowerCase() === invitation.email.toLowerCase();
  if (user === null && invitation.known && signIn.second_factor_due) {
    return <SecondFactor onStartOver={() => void orToast(signOut())} />;
  }
  return (
    <StandalonePage title={`Join ${invitation.account_name}`} hint={<Summary invitation={invitation} />}>
      {user !== null && !isTheirs ? (
        <div className="space-y-4 text-sm text-ink-2">
          <p>
            You are signed in as <strong className="font-medium text-ink">{user.email}</strong>. This
            invitation is for another user. To accept it as that user, sign out first.
          </p>
          <Button className="w-full" onClick={signOut}>
            Sign out
          </Button>
        </div>
      ) : invitation.known && user !== null ? (
        <div className="space-y-4">
          <FormError error={error} />
          <Button kind="primary" className="w-full" busy={busy} onClick={() => void submit(() => accept({}))}>
            Accept invitation
          </Button>
        </div>
      ) : invitation.known ? (
        <div className="space-y-4">
          <p className="text-sm text-ink-2">Sign in to accept this invitation.</p>
          <PasswordForm email={invitation.email} onForgot={null} />
          <Providers providers={signIn.providers} returnTo="/invitation" />
          {signIn.providers.length > 0 && (
            <p className="text-xs text-ink-3">
              After signing in with a provider, open the invitation link again.
            </p>
          )}
        </div>
      ) : (
        <div className="space-y-5">
          <NewUserForm
            email={invitation.email}
            action="Join"
            submit={({ name, password }) => accept({ name, password })}
          />
          {/* Signing in with a provider that has verified the address accepts the invitation. */}
          <Providers providers={signIn.providers} returnTo="/" />
        </div>
      )}
    </StandalonePage>
  );
}

function Summary({ invitation }: Pick<AcceptProps, 'invitation'>) {
  return (
    <p>
      You have been invited as {invitation.role === 'owner' ? 'an owner' : 'a member'} (
      <span className="break-words">{invitation.email}</span>). The invitation expires{' '}
      <Time at={invitation.expires_at} relative />.
    </p>
  );
}

function NoInvitation({ used }: { used: boolean }) {
  return (
    <StandalonePage
      title={used ? 'This invitation is no longer valid' : 'Open your invitation link'}
      hint={
        used
          ? 'It was accepted, withdrawn or replaced, or has expired. Ask for a new invitation.'
          : 'Open the link in your invitation again.'
      }
    >
      <ButtonLink to="/sign-in" className="w-full">
        Go to sign-in
      </ButtonLink>
    </StandalonePage>
  );
}
