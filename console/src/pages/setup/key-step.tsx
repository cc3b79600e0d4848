import { useState } from 'react';
import type { Answer, ApiError } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { TextField } from '../../components/field.tsx';
import { faultAt, FormFault } from '../../components/form-fault.tsx';
import { Front } from '../../components/front.tsx';
import { ShownOnce } from '../../components/shown-once.tsx';
import { Failed, Skeleton } from '../../components/states.tsx';
import { Steps } from './steps.tsx';

/** Name of the first key until its owner says otherwise. */
export const FIRST_KEY = 'First key';

interface KeyStepProps {
  /** Left out: it is being made. */
  created: Answer<'createKey'> | undefined;
  /** Why it could not be made. */
  error: ApiError | null;
  retry: () => void;
  onNext: () => void;
}

/** The second step: the first key is there, and is shown once. */
export function KeyStep({ created, error, retry, onNext }: KeyStepProps) {
  return (
    <Front
      wide
      title="Your first API key"
      hint="Programs show it with each call. Make as many as you have programs, and revoke each by itself."
      above={<Steps at={1} />}
    >
      {created !== undefined ? (
        <Made created={created} onNext={onNext} />
      ) : error !== null ? (
        <Failed error={error} retry={retry} />
      ) : (
        <div role="status" className="space-y-5">
          <span className="sr-only">Making the key</span>
          <Skeleton className="h-28 w-full" />
          <Skeleton className="h-15 w-full" />
        </div>
      )}
    </Front>
  );
}

function Made({ created, onNext }: { created: Answer<'createKey'>; onNext: () => void }) {
  const [name, setName] = useState(created.name);
  const rename = useAction('changeKey', { changes: ['listKeys'], quiet: true });
  return (
    <form
      className="space-y-5"
      onSubmit={(event) => {
        event.preventDefault();
        if (name.trim() === created.name) onNext();
        else rename.mutate({ params: { id: created.id }, body: { name } }, { onSuccess: onNext });
      }}
    >
      <ShownOnce text={created.key} what="key" label="API key">
        <strong className="font-semibold text-ink">This is the only time that you see it.</strong> Only a hash
        of it is kept. Put it where your secrets are; if it is lost, make another.
      </ShownOnce>
      <TextField
        label="Name"
        hint="So that you know it again in lists."
        required
        maxLength={100}
        value={name}
        onChange={(event) => setName(event.target.value)}
        error={faultAt(rename.error, 'name')}
      />
      <FormFault error={rename.error} fields={['name']} />
      <div className="flex justify-end">
        <Button kind="primary" type="submit" busy={rename.isPending} className="w-full sm:w-auto">
          Go on to the first call
        </Button>
      </div>
    </form>
  );
}
