import type { ChangeEvent } from 'react';
import { TextField } from '../../components/field.tsx';
import type { useFieldErrors } from '../../components/field-errors.ts';
import type { OfferDraft, PriceName } from './model-draft.ts';

interface OfferFieldsProps {
  draft: OfferDraft;
  onChange: (draft: OfferDraft) => void;
  errorAt: ReturnType<typeof useFieldErrors>;
}

/** Inputs for the price and the context length of a model. */
export function OfferFields({ draft, onChange, errorAt }: OfferFieldsProps) {
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
