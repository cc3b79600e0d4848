import { Field, TextField } from '../../components/field.tsx';
import type { useFieldErrors } from '../../components/field-errors.ts';
import { Select } from '../../components/select.tsx';
import type { Dialect, ServerDraft } from './model-draft.ts';

const SOFTWARE: Readonly<Record<Dialect, string>> = {
  openai: 'Other OpenAI-compatible server or provider',
  vllm: 'vLLM',
  sglang: 'SGLang',
  'llama-server': 'llama-server (llama.cpp)',
  tgi: 'Text Generation Inference',
  sluice: 'Sluice',
};

// `Object.keys` returns strings.
const CHOICES = (Object.keys(SOFTWARE) as Dialect[]).map((value) => ({ value, label: SOFTWARE[value] }));

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
          choices={CHOICES}
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
