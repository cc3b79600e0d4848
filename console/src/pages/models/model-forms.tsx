import { Checkbox } from '../../components/choices.tsx';
import { Field, TextField } from '../../components/field.tsx';
import type { FieldOf } from '../../components/form.tsx';
import { Select } from '../../components/select.tsx';
import type { Dialect, Modality, OfferDraft, PriceName, ServerDraft } from './model-draft.ts';

export const MODALITIES: readonly { value: Modality; label: string }[] = [
  { value: 'text->text', label: 'Text generation' },
  { value: 'text+image->text', label: 'Text generation, with images' },
  { value: 'text->embedding', label: 'Embeddings' },
  { value: 'text->rerank', label: 'Rerank' },
];

export function KeepField({ value, onChange }: { value: boolean; onChange: (value: boolean) => void }) {
  return (
    <Checkbox checked={value} onChange={onChange}>
      Keep in memory
      <span className="block text-xs text-ink-3">Not unloaded for other models, or when it is not used.</span>
    </Checkbox>
  );
}

interface OfferFieldsProps {
  /** Whether the model generates text. Otherwise only prompts have a price. */
  generates: boolean;
  field: FieldOf<OfferDraft>;
}

export function OfferFields({ generates, field }: OfferFieldsProps) {
  const priceProps = (name: PriceName) => ({
    aside: 'USD per million tokens',
    inputMode: 'decimal' as const,
    autoComplete: 'off',
    ...field(name, `pricing.${name}`),
  });
  return (
    <>
      {generates ? (
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
      ) : (
        <TextField label="Prompt price" placeholder="Free" {...priceProps('prompt')} />
      )}
      <TextField
        label="Context length"
        aside="tokens"
        inputMode="numeric"
        autoComplete="off"
        placeholder="Default"
        hint={
          generates
            ? 'Prompt and completion of one request together. A longer context needs more memory.'
            : 'Maximum tokens of one input. Required unless the server reports it.'
        }
        {...field('context', 'context_tokens')}
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
  tei: 'Text Embeddings Inference',
  sluice: 'Sluice',
};

// `Object.keys` returns strings.
const SOFTWARE_CHOICES = (Object.keys(SOFTWARE) as Dialect[]).map((value) => ({
  value,
  label: SOFTWARE[value],
}));

interface ServerFieldsProps {
  /** Precedes the names of the fields in the API. */
  prefix: string;
  dialect: Dialect;
  onDialect: (dialect: Dialect) => void;
  field: FieldOf<ServerDraft>;
}

export function ServerFields({ prefix, dialect, onDialect, field }: ServerFieldsProps) {
  return (
    <>
      <TextField
        label="Base URL"
        type="url"
        required
        maxLength={2048}
        autoComplete="off"
        placeholder="http://10.0.0.5:8000"
        {...field('url', `${prefix}url`)}
      />
      <Field name={`${prefix}dialect`} label="Server software">
        <Select value={dialect} choices={SOFTWARE_CHOICES} onChange={onDialect} />
      </Field>
      <TextField
        label="Model name on the server"
        aside="optional"
        maxLength={200}
        autoComplete="off"
        placeholder="Same as the model ID"
        {...field('model', `${prefix}model`)}
      />
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField
          label="API key variable"
          aside="optional"
          mono
          autoComplete="off"
          placeholder="SLUICE_REPLICA_KEY"
          hint="The service reads the API key from this environment variable. Its name must start with SLUICE_REPLICA_."
          {...field('keyVariable', `${prefix}api_key_env`)}
        />
        <TextField
          label="Concurrent requests"
          aside="optional"
          inputMode="numeric"
          autoComplete="off"
          placeholder="Automatic"
          hint="Maximum number of requests that each instance sends to this server at a time. A request with several choices counts once for each."
          {...field('maxInFlight', `${prefix}max_in_flight`)}
        />
      </div>
    </>
  );
}
