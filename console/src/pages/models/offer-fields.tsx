import { TextField } from '../../components/field.tsx';
import type { useFieldErrors } from '../../components/field-errors.ts';
import type { OfferDraft } from './model-draft.ts';

interface OfferFieldsProps {
  draft: OfferDraft;
  onChange: (draft: OfferDraft) => void;
  errorAt: ReturnType<typeof useFieldErrors>;
}

/** Inputs for the price and the context length of a model. */
export function OfferFields({ draft, onChange, errorAt }: OfferFieldsProps) {
  return (
    <>
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField
          label="Prompt price"
          aside="USD per million tokens"
          inputMode="decimal"
          autoComplete="off"
          placeholder="Free"
          value={draft.prompt}
          error={errorAt('pricing.prompt', draft.prompt)}
          onChange={({ target }) => onChange({ ...draft, prompt: target.value })}
        />
        <TextField
          label="Completion price"
          aside="USD per million tokens"
          inputMode="decimal"
          autoComplete="off"
          placeholder="Free"
          value={draft.completion}
          error={errorAt('pricing.completion', draft.completion)}
          onChange={({ target }) => onChange({ ...draft, completion: target.value })}
        />
      </div>
      <TextField
        label="Context length"
        aside="tokens"
        inputMode="numeric"
        autoComplete="off"
        placeholder="Default"
        hint="Prompt and completion of one request together. A longer context needs more memory."
        value={draft.context}
        error={errorAt('context_tokens', draft.context)}
        onChange={({ target }) => onChange({ ...draft, context: target.value })}
      />
    </>
  );
}
