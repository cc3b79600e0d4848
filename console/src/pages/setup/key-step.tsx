import { act } from '../../api/act.ts';
import type { ApiError, ResponseOf } from '../../api/client.ts';
import { Button } from '../../components/button.tsx';
import { TextField } from '../../components/field.tsx';
import { Form, FormError, useDraft } from '../../components/form.tsx';
import { OneTimeSecret } from '../../components/secret-dialog.tsx';
import { StandalonePage } from '../../components/standalone-page.tsx';
import { ErrorState, Skeletons } from '../../components/states.tsx';
import { Steps } from './steps.tsx';

export const FIRST_KEY = 'First key';

interface KeyStepProps {
  /** Undefined: being created. */
  created: ResponseOf<'createKey'> | undefined;
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
        <Skeletons heights={['h-28', 'h-15']} />
      )}
    </StandalonePage>
  );
}

function Created({ created, onNext }: { created: ResponseOf<'createKey'>; onNext: () => void }) {
  const form = useDraft({
    initial: { name: created.name },
    submit: async ({ name }) => {
      if (name.trim() !== created.name)
        await act('changeKey', { params: { id: created.id }, body: { name } });
      onNext();
    },
  });
  return (
    <Form error={form.error} className="space-y-5" onSubmit={() => void form.save()}>
      <OneTimeSecret text={created.key} what="key" label="API key">
        <strong className="font-semibold text-ink">Copy this key now. It is shown only once.</strong> Sluice
        stores only a hash of it. If you lose the key, create a new one.
      </OneTimeSecret>
      <TextField
        label="Name"
        hint="Helps you recognize the key later."
        required
        maxLength={100}
        {...form.field('name')}
      />
      <FormError error={form.error} />
      <div className="flex justify-end">
        <Button kind="primary" type="submit" busy={form.busy} className="w-full sm:w-auto">
          Continue
        </Button>
      </div>
    </Form>
  );
}
