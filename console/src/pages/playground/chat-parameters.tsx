import { useState } from 'react';
import { Button } from '../../components/button.tsx';
import { Field, TextArea } from '../../components/field.tsx';
import { Select, type Choice } from '../../components/select.tsx';
import { indented, readJson } from '../../format/json.ts';
import { counted } from '../../format/number.ts';
import { capabilityWarning, type Capability } from './model-text.ts';
import { HintedSwitch, NumberField, Reset, Section, useSettings } from './parameter-fields.tsx';
import { BUDGET, chosenFunction, REASONING_EFFORTS, type ToolChoice } from './settings.ts';
import { useModels, usePlaygroundState, useSelectedModels } from './state.tsx';
import { TOOL_PRESETS, toolNames } from './tools.ts';

const TOOL_PARAMETERS: readonly string[] = ['tools', 'tool_choice', 'parallel_tool_calls'];
const REASONING_PARAMETERS: readonly string[] = ['reasoning_effort', BUDGET.name, 'chat_template_kwargs'];

/** API names of the parameters that only chats have. */
export const CHAT_PARAMETERS: readonly string[] = [...TOOL_PARAMETERS, ...REASONING_PARAMETERS];

/** The tools that the model may call, and how it may call them. */
export function ToolSection() {
  const { settings, errors, set } = useSettings();
  const { tools, toolChoice, parallelToolCalls } = settings;
  const names = toolNames(tools);
  const refusal = useRefusal('tools', tools);
  return (
    <Section
      title="Tools"
      note={names.length === 0 ? null : counted(names.length, 'function')}
      contains={(name) => TOOL_PARAMETERS.includes(name)}
    >
      <div className="flex flex-col gap-3">
        <CapabilityNotice capability="tools" />
        <TextArea
          label="Functions"
          value={tools}
          error={errors['tools'] ?? refusal}
          hint="A JSON array of tools or functions. Calls are shown in the conversation, where you enter their results."
          placeholder='[{ "name": "get_weather", "parameters": … }]'
          mono
          rows={tools === '' ? 3 : 12}
          spellCheck={false}
          onChange={(event) => set({ tools: event.target.value })}
        />
        <EditorButtons text={tools} onChange={(text) => set({ tools: text })} />
      </div>
      <Field
        label="Tool choice"
        error={errors['tool_choice']}
        hint="Which function the model may or must call."
      >
        <Select
          value={toolChoice}
          disabled={names.length === 0}
          choices={choicesOf(names, toolChoice)}
          onChange={(chosen) => set({ toolChoice: chosen })}
        />
      </Field>
      <HintedSwitch
        label="Parallel calls"
        hint="A response may have several calls. Default: on."
        checked={parallelToolCalls}
        disabled={names.length === 0}
        onChange={(checked) => set({ parallelToolCalls: checked })}
      />
    </Section>
  );
}

/** Buttons that fill in an example, or format and clear the input. */
function EditorButtons({ text, onChange }: { text: string; onChange: (text: string) => void }) {
  if (text === '') {
    return (
      <div role="group" aria-label="Example tools" className="flex flex-wrap items-center gap-2">
        <span className="text-xs text-ink-3">Examples</span>
        {TOOL_PRESETS.map((preset) => (
          <Button key={preset.title} size="small" onClick={() => onChange(preset.text)}>
            {preset.title}
          </Button>
        ))}
      </div>
    );
  }
  return (
    <div className="flex gap-2">
      <Button size="small" disabled={'error' in readJson(text)} onClick={() => onChange(indented(text))}>
        Format
      </Button>
      <Button size="small" onClick={() => onChange('')}>
        Clear tools
      </Button>
    </div>
  );
}

function choicesOf(names: readonly string[], chosen: ToolChoice): Choice<ToolChoice>[] {
  const name = chosenFunction(chosen);
  // A function that is no longer among the tools stays visible, with an error.
  const all = name === null || names.includes(name) ? names : [...names, name];
  return [
    { value: 'auto', label: 'Auto (default)', hint: 'The model decides' },
    { value: 'none', label: 'None', hint: 'No calls' },
    { value: 'required', label: 'Required', hint: 'At least one call' },
    ...all.map((one) => ({
      value: `function:${one}` as const,
      label: <span className="font-mono text-xs">{one}</span>,
    })),
  ];
}

/** How long the model reasons, and other variables of its chat template. */
export function ReasoningSection() {
  const { settings, errors, set } = useSettings();
  const { reasoningEffort, templateVariables } = settings;
  const effortRefusal = useRefusal('reasoning_effort', reasoningEffort);
  const variablesRefusal = useRefusal('chat_template_kwargs', templateVariables);
  const budget = settings.numbers[BUDGET.name] ?? '';
  const count = [reasoningEffort, budget.trim(), templateVariables.trim()].filter(
    (value) => value !== '',
  ).length;
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
            ...REASONING_EFFORTS.map((effort) => ({ value: effort, label: EFFORT_LABELS[effort] })),
          ]}
          onChange={(chosen) => set({ reasoningEffort: chosen })}
        />
      </Field>
      <NumberField parameter={BUDGET} />
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

const EFFORT_LABELS: Record<(typeof REASONING_EFFORTS)[number], string> = {
  none: 'None',
  minimal: 'Minimal',
  low: 'Low',
  medium: 'Medium',
  high: 'High',
  xhigh: 'Extra high',
  max: 'Maximum',
};

/** Warns about selected models that lack a capability, or for which it is unknown. */
function CapabilityNotice({ capability }: { capability: Capability }) {
  const selected = useSelectedModels();
  const shown = useModels().filter(({ id }) => selected.includes(id));
  const warnings = shown.flatMap((model) => capabilityWarning(model, capability) ?? []);
  if (warnings.length === 0) return null;
  return (
    <p className="rounded-lg bg-warn-soft px-3 py-2 text-xs leading-5 wrap-anywhere">{warnings.join(' ')}</p>
  );
}

/** Returns the service's error for this field in the last response; null: none, or the value was edited since. */
function useRefusal(field: string, value: string): string | null {
  const refusal = usePlaygroundState(
    ({ draft }) =>
      draft.columns
        .map(({ turns }) => turns.at(-1)?.answer?.fault)
        .find((fault) => fault?.param?.match(/^\w+/)?.[0] === field) ?? null,
  );
  const [refused, setRefused] = useState({ refusal, value });
  if (refused.refusal !== refusal) setRefused({ refusal, value });
  return refused.value === value ? (refusal?.message ?? null) : null;
}
