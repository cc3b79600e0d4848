import { useState } from 'react';
import { Redirect, useLocation, useSearch } from 'wouter';
import type { Answer } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Front } from '../../components/front.tsx';
import { Failed, Notice, Skeleton } from '../../components/states.tsx';
import { useNobody } from '../../shell/nobody.ts';
import { ForgotPassword } from './forgot-password.tsx';
import { PasswordForm } from './password-form.tsx';
import { faultOfProvider } from './provider-faults.ts';
import { Providers } from './providers.tsx';
import { returnPath } from './return-path.ts';
import { SecondFactor } from './second-factor.tsx';
import { SetupLink } from './setup-link.tsx';

/** The way in: password or provider, second factor, forgotten password. */
export default function SignInPage() {
  const session = useRead('getSession', undefined);
  const search = new URLSearchParams(useSearch());
  useNobody(session.data?.person === null);
  if (session.data === undefined) {
    return (
      <Front title="Sign in">
        {session.error === null ? (
          <Loading />
        ) : (
          <Failed error={session.error} retry={() => void session.refetch()} />
        )}
      </Front>
    );
  }
  const to = returnPath(search.get('to'));
  if (session.data.person !== null) return <Redirect replace to={to} />;
  if (session.data.setup_needed) return <SetupNeeded />;
  return <Ways session={session.data} to={to} search={search} />;
}

function Ways({
  session,
  to,
  search,
}: {
  session: Answer<'getSession'>;
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
  if (canReset && search.has('forgot')) {
    return <ForgotPassword onBack={() => go((query) => query.delete('forgot'))} />;
  }
  return (
    <Front title="Sign in" hint="To make keys, and to see what they were used for.">
      <div className="space-y-5">
        {error !== null && <Notice tone="bad">{faultOfProvider(error)}</Notice>}
        <PasswordForm
          onForgot={canReset ? () => go((query) => query.set('forgot', '')) : null}
          onSecondFactor={() => setStartsOver(false)}
        />
        <Providers providers={providers} returnTo={to} />
      </div>
    </Front>
  );
}

function SetupNeeded() {
  return (
    <Front
      title="Nobody has set this service up yet"
      hint="Its first operator is made with a link, which the service prints when it is started on a terminal."
    >
      <SetupLink />
    </Front>
  );
}

function Loading() {
  return (
    <div role="status" className="space-y-5">
      <span className="sr-only">Loading</span>
      <Skeleton className="h-15 w-full" />
      <Skeleton className="h-15 w-full" />
      <Skeleton className="h-9 w-full" />
    </div>
  );
}
