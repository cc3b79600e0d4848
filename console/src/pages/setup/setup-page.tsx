import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { Redirect } from 'wouter';
import { useAction, useRead } from '../../api/queries.ts';
import { ButtonLink } from '../../components/button.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { StandalonePage } from '../../components/standalone-page.tsx';
import { Notice, Skeleton } from '../../components/states.tsx';
import { useFragmentToken } from '../../state/fragment-token.ts';
import { NewUserForm, type NewUser } from '../../components/new-user-form.tsx';
import { SetupLink } from '../../components/setup-link.tsx';
import { CallStep } from './call-step.tsx';
import { keepFirstKey, keptFirstKey } from './first-key.ts';
import { FIRST_KEY, KeyStep } from './key-step.tsx';
import { Steps } from './steps.tsx';

/** ID of the account that the setup creates. */
const FIRST_ACCOUNT = 'default';

/** The setup of a new service: admin account, first API key, first request. */
export default function SetupPage() {
  const token = useFragmentToken();
  const session = useRead('getSession', undefined);
  const client = useQueryClient();
  const [kept] = useState(keptFirstKey);
  const [step, setStep] = useState<'admin' | 'key' | 'request'>(kept?.step ?? 'admin');
  const setUp = useAction('setUp', { quiet: true });
  const createKey = useAction('createKey', { quiet: true });
  const createFirstKey = () => createKey.mutate({ body: { account_id: FIRST_ACCOUNT, name: FIRST_KEY } });
  const created = createKey.data ?? kept?.created;
  useEffect(() => {
    if (step !== 'admin' && created !== undefined) keepFirstKey({ step, created });
  }, [step, created]);
  const check = useAction('checkSetupLink', { quiet: true });
  const { mutate: checkLink } = check;
  const isNew = session.data?.setup_needed === true && session.data.user === null;
  const [isChecked, setChecked] = useState(false);
  useEffect(() => {
    if (isNew && token !== '') checkLink({ body: { token } }, { onSettled: () => setChecked(true) });
  }, [isNew, token, checkLink]);
  const begin = (user: NewUser) =>
    setUp.mutate(
      { body: { token, ...user } },
      {
        onSuccess: () => {
          // Set the step before the session changes, because signed-in users in the first step are sent to the console.
          setStep('key');
          createFirstKey();
          void client.invalidateQueries({ queryKey: ['getSession'] });
        },
      },
    );
  if (session.data === undefined) {
    return (
      <StandalonePage title="Set up Sluice" above={<Steps at={0} />}>
        <Loaded query={session} loading={<Loading />}>
          {() => null}
        </Loaded>
      </StandalonePage>
    );
  }
  // A stored key is only shown to a signed-in user.
  const isTheirs = createKey.data !== undefined || kept === null || session.data.user !== null;
  if (step === 'key' && isTheirs) {
    return (
      <KeyStep
        created={created}
        error={createKey.error}
        retry={createFirstKey}
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
  if (!isChecked) {
    return (
      <StandalonePage title="Create your admin account" above={<Steps at={0} />}>
        <Loading />
      </StandalonePage>
    );
  }
  const isRefused = setUp.error?.code === 'invalid_link';
  return (
    <StandalonePage
      title="Create your admin account"
      hint="As an operator, you manage who can use this service and how much."
      above={<Steps at={0} />}
    >
      <div className="space-y-6">
        <NewUserForm
          action="Continue"
          busy={setUp.isPending}
          // The error of a refused link is shown below, with instructions.
          error={isRefused ? null : setUp.error}
          onSubmit={begin}
        />
        {isRefused && (
          <>
            <Notice tone="bad">
              {setUp.error?.message} Open a new setup link in this tab. Your input is kept.
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
