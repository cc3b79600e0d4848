import { MailCheck } from 'lucide-react';
import { useState } from 'react';
import { Redirect, useLocation, useSearch } from 'wouter';
import { act } from '../../api/act.ts';
import type { ResponseOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Code } from '../../components/code.tsx';
import { DraftForm } from '../../components/draft-form.tsx';
import { EmailField } from '../../components/field.tsx';
import { useFocus } from '../../components/focus.ts';
import { SetupLink, StandalonePage } from '../../components/standalone-page.tsx';
import { Loaded, Notice, Skeletons } from '../../components/states.tsx';
import { PasswordForm, Providers } from './password-form.tsx';
import { returnPath } from './return-path.ts';
import { SecondFactor } from './second-factor.tsx';

export default function SignInPage() {
  const session = useRead('getSession', undefined);
  const search = new URLSearchParams(useSearch());
  if (session.data === undefined) {
    return (
      <StandalonePage title="Sign in">
        <Loaded query={session} loading={<Skeletons heights={['h-15', 'h-15', 'h-9']} />}>
          {() => null}
        </Loaded>
      </StandalonePage>
    );
  }
  const to = returnPath(search.get('to'));
  if (session.data.user !== null) return <Redirect replace to={to} />;
  if (session.data.setup_needed) return <SetupNeeded />;
  return <SignIn session={session.data} to={to} search={search} />;
}

function SignIn({
  session,
  to,
  search,
}: {
  session: ResponseOf<'getSession'>;
  to: string;
  search: URLSearchParams;
}) {
  const [, navigate] = useLocation();
  const [startsOver, setStartsOver] = useState(false);
  const { providers, password_reset: canReset, second_factor_due: isDue } = session.sign_in;
  const error = search.get('error');
  if (isDue && !startsOver) return <SecondFactor onStartOver={() => setStartsOver(true)} />;
  const go = (change: (query: URLSearchParams) => void) => {
    const query = new URLSearchParams(search);
    query.delete('error');
    change(query);
    navigate(query.size > 0 ? `/sign-in?${query}` : '/sign-in');
  };
  if (search.has('forgot')) {
    const back = () => go((query) => query.delete('forgot'));
    return canReset ? <ForgotPassword onBack={back} /> : <ResetByOperator onBack={back} />;
  }
  return (
    <StandalonePage title="Sign in" hint="Manage your API keys and usage">
      <div className="space-y-5">
        {error !== null && <Notice tone="bad">{faultOfProvider(error)}</Notice>}
        <PasswordForm
          onForgot={() => go((query) => query.set('forgot', ''))}
          onSecondFactor={() => setStartsOver(false)}
        />
        <Providers providers={providers} returnTo={to} />
      </div>
    </StandalonePage>
  );
}

/** Messages for the error codes that the service adds to the sign-in URL after a failed provider sign-in. */
const FAULTS: ReadonlyMap<string, string> = new Map([
  ['cancelled', 'Sign-in was canceled. Try again, or sign in another way.'],
  ['not_invited', 'This email has not been invited. Ask an account owner or operator for an invitation.'],
  ['email_not_verified', 'Your email is not verified at the provider. Verify it there and try again.'],
]);

function faultOfProvider(code: string): string {
  return FAULTS.get(code) ?? 'Could not sign in with the provider. Try again, or sign in another way.';
}

function ResetByOperator({ onBack }: { onBack: () => void }) {
  return (
    <StandalonePage
      title="Reset your password"
      hint="This service does not send email. An operator can give you a password reset link."
    >
      <div className="space-y-3 text-sm text-ink-2">
        <p>
          On the machine that runs the service, this command prints a link that works once and expires after
          an hour:
        </p>
        <Code
          text="npx sluice users password-link you@example.com"
          what="command"
          label="Command that prints a password reset link"
          language="bash"
        />
        <p className="text-xs leading-5 text-ink-3">
          Replace the address with the user's email address. For a lost second factor, run{' '}
          <code className="font-mono">npx sluice users reset-second-factor you@example.com</code>. An operator
          who cannot sign in can use these commands as well.
        </p>
      </div>
      <Button className="mt-6 w-full" onClick={onBack}>
        Back to sign-in
      </Button>
    </StandalonePage>
  );
}

function SetupNeeded() {
  return (
    <StandalonePage
      title="Sluice is not set up yet"
      hint="Open the setup link to create the first user. Sluice prints it when started in a terminal."
    >
      <SetupLink />
    </StandalonePage>
  );
}

/** Requests a password reset link. The result does not reveal whether the address belongs to a user. */
function ForgotPassword({ onBack }: { onBack: () => void }) {
  const [sentTo, setSentTo] = useState<string | null>(null);
  const first = useFocus<HTMLInputElement>();
  if (sentTo !== null) {
    return (
      <StandalonePage title="Check your email">
        <div role="status" className="flex gap-3 text-sm text-ink-2">
          <MailCheck className="mt-0.5 size-5 shrink-0 text-good" />
          <p>
            If a user with the email <strong className="font-medium break-words text-ink">{sentTo}</strong>{' '}
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
      <DraftForm
        action="Send reset link"
        initial={{ email: '' }}
        submit={async (body) => {
          await act('forgotPassword', { body });
          setSentTo(body.email);
        }}
        below={
          <Button kind="quiet" className="w-full" onClick={onBack}>
            Back to sign-in
          </Button>
        }
      >
        {(field) => <EmailField ref={first} {...field('email')} />}
      </DraftForm>
    </StandalonePage>
  );
}
