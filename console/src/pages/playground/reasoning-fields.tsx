import { Field, TextArea } from '../../components/field.tsx';
import { Select } from '../../components/select.tsx';
import { useActions, usePlayground } from './state.tsx';
import { CapabilityNotice } from './model-notice.tsx';
import { Reset } from './number-field.tsx';
import { Section } from './section.tsx';
import { REASONING_EFFORTS } from './settings.ts';
import { useRefusal } from './use-refusal.ts';

/** API names of the parameters of this section. */
export const REASONING_PARAMETERS: readonly string[] = ['reasoning_effort', 'chat_template_kwargs'];

/** How long the model reasons, and other variables of its chat template. */
export function ReasoningSection() {
  const { draft, errors } = usePlayground();
  const { change } = useActions();
  const { reasoningEffort, templateVariables } = draft.settings;
  const set = (values: Partial<typeof draft.settings>) => change({ type: 'settings', values });
  const effortRefusal = useRefusal('reasoning_effort', reasoningEffort);
  const variablesRefusal = useRefusal('chat_template_kwargs', templateVariables);
  const count = [reasoningEffort, templateVariables.trim()].filter((value) => value !== '').length;
  return (
    <Section
      title="Reasoning"
      note={count === 0 ? null : `${count} set`}
      contains={(name) => REASONING_PARAMETERS.includes(name)}
    >
      <CapabilityNotice capability="reasoning" />
      <Field
        label="Reasoning effort"
        error={effortRefusal}
        hint="How long a reasoning model thinks. “None” turns reasoning off."
      >
        <Select
          value={reasoningEffort}
          choices={[
            { value: '', label: "Model's default" },
            ...REASONING_EFFORTS.map((effort) => ({ value: effort, label: LABELS[effort] })),
          ]}
          onChange={(chosen) => set({ reasoningEffort: chosen })}
        />
      </Field>
      <TextArea
        label="Template variables"
        aside={
          <Reset
            label="Template variables"
            isSet={templateVariables !== ''}
            onReset={() => set({ templateVariables: '' })}
          />
        }
        value={templateVariables}
        error={errors['chat_template_kwargs'] ?? variablesRefusal}
        placeholder='{ "enable_thinking": false }'
        hint="A JSON object of variables for the chat template. Default: none."
        mono
        rows={2}
        spellCheck={false}
        onChange={(event) => set({ templateVariables: event.target.value })}
      />
    </Section>
  );
}

const LABELS: Record<(typeof REASONING_EFFORTS)[number], string> = {
  none: 'None',
  minimal: 'Minimal',
  low: 'Low',
  medium: 'Medium',
  high: 'High',
  xhigh: 'Extra high',
  max: 'Maximum',
};
