import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { Redirect } from 'wouter';
import { act } from '../../api/act.ts';
import { call, type ApiError } from '../../api/client.ts';
import { readSession, useRead } from '../../api/queries.ts';
import { ButtonLink } from '../../components/button.tsx';
import { FormError, useSubmit } from '../../components/form.tsx';
import { NewUserForm, type NewUser } from '../../components/new-user-form.tsx';
import { SetupLink, StandalonePage } from '../../components/standalone-page.tsx';
import { Loaded, Notice, Skeletons } from '../../components/states.tsx';
import { useFragmentToken } from '../../state/fragment-token.ts';
import { CallStep } from './call-step.tsx';
import { keepFirstKey, keptFirstKey } from './first-key.ts';
import { FIRST_KEY, KeyStep } from './key-step.tsx';
import { Steps } from './steps.tsx';

const LOADING = <Skeletons heights={['h-15', 'h-15', 'h-15', 'h-9']} />;

const FIRST_ACCOUNT = 'default';

/** The setup of a new service: first user, first API key, first request. */
export default function SetupPage() {
  const token = useFragmentToken();
  const session = useRead('getSession', undefined);
  const userId = session.data?.user?.id;
  const [kept] = useState(keptFirstKey);
  const [step, setStep] = useState<'user' | 'key' | 'request'>(kept?.step ?? 'user');
  const [created, setCreated] = useState(kept?.created);
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
  const begin = async (user: NewUser) => {
    await act('setUp', { body: { token, ...user } });
    // Set the step before the session changes, because signed-in users in the first step are sent to the console.
    setStep('key');
    void createFirstKey();
    await readSession();
  };
  if (session.data === undefined) {
    return (
      <StandalonePage title="Set up Sluice" above={<Steps at={0} />}>
        <Loaded query={session} loading={LOADING}>
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
  if (token === '' || check.error?.code === 'invalid_link') {
    const [title, hint] = token === '' ? NO_LINK : INVALID_LINK;
    return (
      <StandalonePage title={title} hint={hint}>
        <SetupLink />
      </StandalonePage>
    );
  }
  if (check.isPending) {
    return (
      <StandalonePage title="Create your user" above={<Steps at={0} />}>
        {LOADING}
      </StandalonePage>
    );
  }
  return (
    <StandalonePage
      title="Create your user"
      hint="As an operator, you manage who can use this service and how much."
      above={<Steps at={0} />}
    >
      <NewUserForm action="Continue" submit={begin} renderError={renderError} />
    </StandalonePage>
  );
}

/** The error of a refused link comes with instructions. */
function renderError(error: ApiError) {
  if (error.code !== 'invalid_link') return <FormError error={error} />;
  return (
    <>
      <Notice tone="bad">{error.message} Open a new setup link in this tab. Your input is kept.</Notice>
      <SetupLink />
    </>
  );
}

const NO_LINK = [
  'Open your setup link',
  "Reloading the page discards the link's token. Open the link again. It works until it is used or expires.",
] as const;
const INVALID_LINK = [
  'This setup link is not valid',
  'It is incomplete, has expired, or was replaced by a newer link.',
] as const;

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
