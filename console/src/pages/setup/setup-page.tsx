import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Redirect } from 'wouter';
import { useAction, useRead } from '../../api/queries.ts';
import { ButtonLink } from '../../components/button.tsx';
import { Front } from '../../components/front.tsx';
import { Failed, Notice, Skeleton } from '../../components/states.tsx';
import { useFragmentToken } from '../../shell/fragment.ts';
import { NewPersonForm, type NewPerson } from '../sign-in/new-person-form.tsx';
import { SetupLink } from '../sign-in/setup-link.tsx';
import { CallStep } from './call-step.tsx';
import { FIRST_KEY, KeyStep } from './key-step.tsx';
import { Steps } from './steps.tsx';

/** From a fresh service to a seen answer: the first operator, the first key, the first call. */
export default function SetupPage() {
  const token = useFragmentToken();
  const session = useRead('getSession', undefined);
  const client = useQueryClient();
  const [step, setStep] = useState<'you' | 'key' | 'call'>('you');
  const setUp = useAction('setUp', { quiet: true });
  const createKey = useAction('createKey', { quiet: true });
  const makeKey = () => createKey.mutate({ body: { name: FIRST_KEY } });
  const begin = (person: NewPerson) =>
    setUp.mutate(
      { body: { token, ...person } },
      {
        onSuccess: () => {
          // The step first: whoever is signed in and has not begun here is sent on to the console.
          setStep('key');
          makeKey();
          void client.invalidateQueries({ queryKey: ['getSession'] });
        },
      },
    );
  if (session.data === undefined) {
    return (
      <Front title="Set up Sluice" above={<Steps at={0} />}>
        {session.error === null ? (
          <Loading />
        ) : (
          <Failed error={session.error} retry={() => void session.refetch()} />
        )}
      </Front>
    );
  }
  if (step === 'key') {
    return (
      <KeyStep
        created={createKey.data}
        error={createKey.error}
        retry={makeKey}
        onNext={() => setStep('call')}
      />
    );
  }
  if (step === 'call' && createKey.data !== undefined) {
    return <CallStep apiKey={createKey.data.key} baseUrl={session.data.public_url} />;
  }
  if (session.data.person !== null) return <Redirect replace to="/keys" />;
  if (!session.data.setup_needed) return <Finished />;
  if (token === '') return <NoLink />;
  const isRefused = setUp.error?.code === 'invalid_link';
  return (
    <Front
      title="Make the first operator"
      hint="You manage this service: who may use it, and how much."
      above={<Steps at={0} />}
    >
      <div className="space-y-6">
        <NewPersonForm
          action="Go on"
          busy={setUp.isPending}
          // Of another link, that of the first one is no more.
          error={isRefused ? null : setUp.error}
          onSubmit={begin}
        />
        {isRefused && (
          <>
            <Notice tone="bad">
              {setUp.error?.message} Open a new one in this tab: what you typed stays.
            </Notice>
            <SetupLink />
          </>
        )}
      </div>
    </Front>
  );
}

function NoLink() {
  return (
    <Front
      title="Open the set-up link"
      hint="What lets you in stands in the link alone, and a reload forgets it. The link can be opened again for as long as it has not been used."
    >
      <SetupLink />
    </Front>
  );
}

function Finished() {
  return (
    <Front
      title="This service is set up"
      hint="It has an operator, so a set-up link opens nothing any more. Further people are invited."
    >
      <ButtonLink kind="primary" to="/sign-in" className="w-full">
        Sign in
      </ButtonLink>
    </Front>
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
