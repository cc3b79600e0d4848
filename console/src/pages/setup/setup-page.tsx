import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { Redirect } from 'wouter';
import { act } from '../../api/act.ts';
import { call, type ApiError } from '../../api/client.ts';
import { readSession, useRead } from '../../api/queries.ts';
import { ButtonLink } from '../../components/button.tsx';
import { useSubmit } from '../../components/form.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { NewUserForm, type NewUser } from '../../components/new-user-form.tsx';
import { SetupLink, StandalonePage } from '../../components/standalone-page.tsx';
import { Notice, Skeleton } from '../../components/states.tsx';
import { useFragmentToken } from '../../state/fragment-token.ts';
import { CallStep } from './call-step.tsx';
import { keepFirstKey, keptFirstKey } from './first-key.ts';
import { FIRST_KEY, KeyStep } from './key-step.tsx';
import { Steps } from './steps.tsx';

/** ID of the account that the setup creates. */
const FIRST_ACCOUNT = 'default';

/** The setup of a new service: first user, first API key, first request. */
export default function SetupPage() {
  const token = useFragmentToken();
  const session = useRead('getSession', undefined);
  const userId = session.data?.user?.id;
  const [kept] = useState(keptFirstKey);
  const [step, setStep] = useState<'user' | 'key' | 'request'>(kept?.step ?? 'user');
  const [created, setCreated] = useState(kept?.created);
  const setup = useSubmit();
  const firstKey = useSubmit();
  useEffect(() => {
    if (step !== 'user' && created !== undefined && userId !== undefined)
      keepFirstKey({ step, created, userId });
  }, [step, created, userId]);
  const isNew = session.data?.setup_needed === true && session.data.user === null;
  // A POST that changes nothing: the token is in the body to keep it out of URLs.
  const check = useQuery<unknown, ApiError>({
    queryKey: ['checkSetupLink', token],
    queryFn: ({ signal }) => call('checkSetupLink', { body: { token } }, signal),
    enabled: isNew && token !== '',
    staleTime: Infinity,
    retry: false,
  });
  const createFirstKey = () =>
    firstKey.submit(async () =>
      setCreated(
        await act(
          'createKey',
          { body: { account_id: FIRST_ACCOUNT, name: FIRST_KEY } },
          { ifLost: 'No response arrived. Try again; you can revoke the lost key on the Keys page.' },
        ),
      ),
    );
  const begin = (user: NewUser) =>
    setup.submit(async () => {
      await act('setUp', { body: { token, ...user } });
      // Set the step before the session changes, because signed-in users in the first step are sent to the console.
      setStep('key');
      void createFirstKey();
      await readSession();
    });
  if (session.data === undefined) {
    return (
      <StandalonePage title="Set up Sluice" above={<Steps at={0} />}>
        <Loaded query={session} loading={<Loading />}>
          {() => null}
        </Loaded>
      </StandalonePage>
    );
  }
  // A stored key is only shown to the user who created it.
  const isTheirs = kept === null || kept.userId === userId;
  if (step === 'key' && isTheirs) {
    return (
      <KeyStep
        created={created}
        error={firstKey.error}
        retry={() => void createFirstKey()}
        onNext={() => setStep('request')}
      />
    );
  }
  if (step === 'request' && isTheirs && created !== undefined) {
    return <CallStep apiKey={created.key} baseUrl={session.data.public_url} />;
  }
  if (session.data.user !== null) return <Redirect replace to="/" />;
  if (!session.data.setup_needed) return <Finished />;
  if (token === '') return <NoLink />;
  if (check.error?.code === 'invalid_link') return <InvalidLink />;
  if (check.isPending) {
    return (
      <StandalonePage title="Create your user" above={<Steps at={0} />}>
        <Loading />
      </StandalonePage>
    );
  }
  const isRefused = setup.error?.code === 'invalid_link';
  return (
    <StandalonePage
      title="Create your user"
      hint="As an operator, you manage who can use this service and how much."
      above={<Steps at={0} />}
    >
      <div className="space-y-6">
        <NewUserForm
          action="Continue"
          busy={setup.busy}
          // The error of a refused link is shown below, with instructions.
          error={isRefused ? null : setup.error}
          onSubmit={(user) => void begin(user)}
        />
        {isRefused && (
          <>
            <Notice tone="bad">
              {setup.error?.message} Open a new setup link in this tab. Your input is kept.
            </Notice>
            <SetupLink />
          </>
        )}
      </div>
    </StandalonePage>
  );
}

function NoLink() {
  return (
    <StandalonePage
      title="Open your setup link"
      hint="Reloading the page discards the link's token. Open the link again. It works until it is used or expires."
    >
      <SetupLink />
    </StandalonePage>
  );
}

function InvalidLink() {
  return (
    <StandalonePage
      title="This setup link is not valid"
      hint="It is incomplete, has expired, or was replaced by a newer link."
    >
      <SetupLink />
    </StandalonePage>
  );
}

function Finished() {
  return (
    <StandalonePage
      title="Sluice is already set up"
      hint="Setup links are no longer valid. Operators and account owners can invite more users."
    >
      <ButtonLink kind="primary" to="/sign-in" className="w-full">
        Sign in
      </ButtonLink>
    </StandalonePage>
  );
}

function Loading() {
  return (
    <div role="status" className="space-y-5">
      <span className="sr-only">Loading</span>
      {[1, 2, 3].map((field) => (
        <Skeleton key={field} className="h-15 w-full" />
      ))}
      <Skeleton className="h-9 w-full" />
    </div>
  );
}
