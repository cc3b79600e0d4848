import { useState, type SubmitEvent } from 'react';
import type { ApiError, ItemOf } from '../../api/client.ts';
import { useFieldErrors, type FieldErrors } from '../../components/field-errors.ts';
import { FormError } from '../../components/form-error.tsx';
import { Notice } from '../../components/states.tsx';
import { NEW_SERVER, offerDraftOf, offerOf, serverOf, type Read } from './model-draft.ts';
import { OfferFields } from './offer-fields.tsx';
import { ServerFields } from './server-fields.tsx';

interface FormProps<Value> {
  id: string;
  error: ApiError | null;
  onSubmit: (value: Value) => void;
}

type ValueOf<Reader extends (...given: never[]) => Read<unknown>> = NonNullable<ReturnType<Reader>['value']>;

const OFFER_PARAMS = ['pricing.prompt', 'pricing.completion', 'pricing.input_cache_read', 'context_tokens'];

/** The form to change the price and the context length of a model. */
export function OfferForm({
  id,
  error,
  onSubmit,
  model,
}: FormProps<ValueOf<typeof offerOf>> & { model: ItemOf<'listServedModels'> }) {
  const [draft, setDraft] = useState(() => offerDraftOf(model));
  const [errors, setErrors] = useState<FieldErrors>({});
  const errorAt = useFieldErrors(error, errors);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const { value, errors } = offerOf(draft);
    setErrors(errors ?? {});
    if (value !== null) onSubmit(value);
  };
  return (
    <form id={id} onSubmit={submit} className="space-y-4">
      <OfferFields draft={draft} onChange={setDraft} errorAt={errorAt} />
      <Notice>
        A new price applies from the next request on.
        {model.embedded &&
          ' A new context length restarts the engine: running requests have 10 seconds to finish.'}
      </Notice>
      <FormError error={error} fields={OFFER_PARAMS} />
    </form>
  );
}

const PREFIX = 'replica.';
const SERVER_PARAMS = ['url', 'dialect', 'model', 'api_key_env', 'max_in_flight'];

/** The form to add a server to a model. */
export function ServerForm({ id, error, onSubmit }: FormProps<ValueOf<typeof serverOf>>) {
  const [draft, setDraft] = useState(NEW_SERVER);
  const [errors, setErrors] = useState<FieldErrors>({});
  const errorAt = useFieldErrors(error, errors);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const { value, errors } = serverOf(draft, PREFIX);
    setErrors(errors ?? {});
    if (value !== null) onSubmit(value);
  };
  return (
    <form id={id} onSubmit={submit} className="space-y-4">
      <ServerFields
        draft={draft}
        onChange={setDraft}
        errorAt={(param, value) => errorAt(PREFIX + param, value) ?? errorAt(param, value)}
      />
      <FormError error={error} fields={SERVER_PARAMS.flatMap((param) => [param, PREFIX + param])} />
    </form>
  );
}
