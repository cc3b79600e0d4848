import { useState, type ChangeEvent, type SubmitEvent } from 'react';
import type { ApiError, ItemOf } from '../../api/client.ts';
import { Checkbox } from '../../components/choices.tsx';
import { useFieldErrors, type FieldErrors } from '../../components/field-errors.ts';
import { Field, TextField } from '../../components/field.tsx';
import { FormError } from '../../components/form-error.tsx';
import { Select } from '../../components/select.tsx';
import { Notice } from '../../components/states.tsx';
import { returnsEmbeddings } from '../../format/modality.ts';
import {
  NEW_SERVER,
  offerDraftOf,
  offerOf,
  serverOf,
  type Dialect,
  type Modality,
  type OfferDraft,
  type PriceName,
  type Read,
  type ServerDraft,
} from './model-draft.ts';

interface FormProps<Value> {
  id: string;
  error: ApiError | null;
  onSubmit: (value: Value) => void;
}

type ValueOf<Reader extends (...given: never[]) => Read<unknown>> = NonNullable<ReturnType<Reader>['value']>;

const OFFER_PARAMS = ['pricing.prompt', 'pricing.completion', 'pricing.input_cache_read', 'context_tokens'];

/** The form to change the price and the context length of a model, and whether it stays in memory. */
export function OfferForm({
  id,
  error,
  onSubmit,
  model,
}: FormProps<ValueOf<typeof offerOf> & { keep?: boolean }> & { model: ItemOf<'listServedModels'> }) {
  const [draft, setDraft] = useState(() => offerDraftOf(model));
  const [keep, setKeep] = useState(model.keep === true);
  const [errors, setErrors] = useState<FieldErrors>({});
  const errorAt = useFieldErrors(error, errors);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const { value, errors } = offerOf(draft);
    setErrors(errors ?? {});
    if (value !== null) onSubmit({ ...value, ...(model.embedded && { keep }) });
  };
  return (
    <form id={id} onSubmit={submit} className="space-y-4">
      <OfferFields embeds={returnsEmbeddings(model)} draft={draft} onChange={setDraft} errorAt={errorAt} />
      {model.embedded && <KeepField value={keep} onChange={setKeep} />}
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

const MODALITIES: readonly { value: Modality; label: string }[] = [
  { value: 'text->text', label: 'Text generation' },
  { value: 'text+image->text', label: 'Text generation, with images' },
  { value: 'text->embedding', label: 'Embeddings' },
];

interface ModalityFieldProps {
  value: Modality;
  onChange: (value: Modality) => void;
  error: string | null;
}

/** The input for what the servers of a model take and return. */
export function ModalityField({ value, onChange, error }: ModalityFieldProps) {
  return (
    <Field label="Kind of model" error={error}>
      <Select value={value} choices={MODALITIES} onChange={onChange} />
    </Field>
  );
}

/** The input for whether a model stays in memory. */
export function KeepField({ value, onChange }: { value: boolean; onChange: (value: boolean) => void }) {
  return (
    <Checkbox checked={value} onChange={onChange}>
      Keep in memory
      <span className="block text-xs text-ink-3">Not unloaded for other models, or when it is not used.</span>
    </Checkbox>
  );
}

interface OfferFieldsProps {
  /** The model returns embeddings, so only prompts have a price. */
  embeds: boolean;
  draft: OfferDraft;
  onChange: (draft: OfferDraft) => void;
  errorAt: ReturnType<typeof useFieldErrors>;
}

/** Inputs for the price and the context length of a model. */
export function OfferFields({ embeds, draft, onChange, errorAt }: OfferFieldsProps) {
  const priceProps = (name: PriceName) => ({
    aside: 'USD per million tokens',
    inputMode: 'decimal' as const,
    autoComplete: 'off',
    value: draft[name],
    error: errorAt(`pricing.${name}`, draft[name]),
    onChange: ({ target }: ChangeEvent<HTMLInputElement>) => onChange({ ...draft, [name]: target.value }),
  });
  return (
    <>
      {embeds ? (
        <TextField label="Prompt price" placeholder="Free" {...priceProps('prompt')} />
      ) : (
        <>
          <div className="grid gap-4 sm:grid-cols-2">
            <TextField label="Prompt price" placeholder="Free" {...priceProps('prompt')} />
            <TextField label="Completion price" placeholder="Free" {...priceProps('completion')} />
          </div>
          <TextField
            label="Cached prompt price"
            placeholder="Same as the prompt price"
            hint="Price of prompt tokens from the prefix cache. At most the prompt price."
            {...priceProps('input_cache_read')}
          />
        </>
      )}
      <TextField
        label="Context length"
        aside="tokens"
        inputMode="numeric"
        autoComplete="off"
        placeholder="Default"
        hint={
          embeds
            ? 'Maximum tokens of one text. Required unless the server reports it.'
            : 'Prompt and completion of one request together. A longer context needs more memory.'
        }
        value={draft.context}
        error={errorAt('context_tokens', draft.context)}
        onChange={({ target }) => onChange({ ...draft, context: target.value })}
      />
    </>
  );
}

const SOFTWARE: Readonly<Record<Dialect, string>> = {
  openai: 'Other OpenAI-compatible server or provider',
  vllm: 'vLLM',
  sglang: 'SGLang',
  'llama-server': 'llama-server (llama.cpp)',
  tgi: 'Text Generation Inference',
  sluice: 'Sluice',
};

// `Object.keys` returns strings.
const SOFTWARE_CHOICES = (Object.keys(SOFTWARE) as Dialect[]).map((value) => ({
  value,
  label: SOFTWARE[value],
}));

interface ServerFieldsProps {
  draft: ServerDraft;
  onChange: (draft: ServerDraft) => void;
  errorAt: ReturnType<typeof useFieldErrors>;
}

/** Inputs for a server that runs a model. */
export function ServerFields({ draft, onChange, errorAt }: ServerFieldsProps) {
  return (
    <>
      <TextField
        label="Base URL"
        type="url"
        required
        maxLength={2048}
        autoComplete="off"
        placeholder="http://10.0.0.5:8000"
        value={draft.url}
        error={errorAt('url', draft.url)}
        onChange={({ target }) => onChange({ ...draft, url: target.value })}
      />
      <Field label="Server software" error={errorAt('dialect', draft.dialect)}>
        <Select
          value={draft.dialect}
          choices={SOFTWARE_CHOICES}
          onChange={(dialect) => onChange({ ...draft, dialect })}
        />
      </Field>
      <TextField
        label="Model name on the server"
        aside="optional"
        maxLength={200}
        autoComplete="off"
        placeholder="Same as the model ID"
        value={draft.model}
        error={errorAt('model', draft.model)}
        onChange={({ target }) => onChange({ ...draft, model: target.value })}
      />
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField
          label="API key variable"
          aside="optional"
          mono
          autoComplete="off"
          placeholder="SLUICE_REPLICA_KEY"
          hint="The service reads the API key from this environment variable. Its name must start with SLUICE_REPLICA_."
          value={draft.keyVariable}
          error={errorAt('api_key_env', draft.keyVariable)}
          onChange={({ target }) => onChange({ ...draft, keyVariable: target.value })}
        />
        <TextField
          label="Concurrent requests"
          aside="optional"
          inputMode="numeric"
          autoComplete="off"
          placeholder="Automatic"
          hint="Maximum number of requests that each instance sends to this server at a time. A request with several choices counts once for each."
          value={draft.maxInFlight}
          error={errorAt('max_in_flight', draft.maxInFlight)}
          onChange={({ target }) => onChange({ ...draft, maxInFlight: target.value })}
        />
      </div>
    </>
  );
}
