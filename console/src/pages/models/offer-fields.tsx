import { TextField } from '../../components/field.tsx';
import type { OfferDraft } from './model-draft.ts';

interface OfferFieldsProps {
  draft: OfferDraft;
  onChange: (draft: OfferDraft) => void;
  errorAt: (param: string) => string | null;
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
          error={errorAt('pricing.prompt')}
          onChange={({ target }) => onChange({ ...draft, prompt: target.value })}
        />
        <TextField
          label="Completion price"
          aside="USD per million tokens"
          inputMode="decimal"
          autoComplete="off"
          placeholder="Free"
          value={draft.completion}
          error={errorAt('pricing.completion')}
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
        error={errorAt('context_tokens')}
        onChange={({ target }) => onChange({ ...draft, context: target.value })}
      />
    </>
  );
}
