import { useState } from 'react';
import { act } from '../../api/act.ts';
import type { ResponseOf, ApiError } from '../../api/client.ts';
import { Button } from '../../components/button.tsx';
import { TextField } from '../../components/field.tsx';
import { Form, FormError, useSubmit } from '../../components/form.tsx';
import { StandalonePage } from '../../components/standalone-page.tsx';
import { OneTimeSecret } from '../../components/secret-dialog.tsx';
import { ErrorState, Skeleton } from '../../components/states.tsx';
import { Steps } from './steps.tsx';

/** Initial name of the first key. */
export const FIRST_KEY = 'First key';

interface KeyStepProps {
  /** Undefined: being created. */
  created: ResponseOf<'createKey'> | undefined;
  /** Why it could not be created. */
  error: ApiError | null;
  retry: () => void;
  onNext: () => void;
}

/** Step 2: shows the first key once. */
export function KeyStep({ created, error, retry, onNext }: KeyStepProps) {
  return (
    <StandalonePage
      wide
      title="Your first API key"
      hint="Your apps send this key with every request. Create one key per app so you can revoke them separately."
      above={<Steps at={1} />}
    >
      {created !== undefined ? (
        <Created created={created} onNext={onNext} />
      ) : error !== null ? (
        <ErrorState error={error} retry={retry} />
      ) : (
        <div role="status" className="space-y-5">
          <span className="sr-only">Creating key</span>
          <Skeleton className="h-28 w-full" />
          <Skeleton className="h-15 w-full" />
        </div>
      )}
    </StandalonePage>
  );
}

function Created({ created, onNext }: { created: ResponseOf<'createKey'>; onNext: () => void }) {
  const [name, setName] = useState(created.name);
  const { busy, error, submit } = useSubmit();
  return (
    <Form
      error={error}
      className="space-y-5"
      onSubmit={() =>
        void submit(async () => {
          if (name.trim() !== created.name)
            await act('changeKey', { params: { id: created.id }, body: { name } });
          onNext();
        })
      }
    >
      <OneTimeSecret text={created.key} what="key" label="API key">
        <strong className="font-semibold text-ink">Copy this key now. It is shown only once.</strong> Sluice
        stores only a hash of it. If you lose the key, create a new one.
      </OneTimeSecret>
      <TextField
        name="name"
        label="Name"
        hint="Helps you recognize the key later."
        required
        maxLength={100}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      <FormError error={error} />
      <div className="flex justify-end">
        <Button kind="primary" type="submit" busy={busy} className="w-full sm:w-auto">
          Continue
        </Button>
      </div>
    </Form>
  );
}
