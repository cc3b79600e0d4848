import { Button } from '../../components/button.tsx';
import { Switch } from '../../components/choices.tsx';
import { Field, TextArea } from '../../components/field.tsx';
import { Select, type Choice } from '../../components/select.tsx';
import { useActions, usePlayground } from './state.tsx';
import { indented, readJson } from '../../format/json.ts';
import { CapabilityNotice } from './model-notice.tsx';
import { Section } from './section.tsx';
import { chosenFunction, type ToolChoice } from './settings.ts';
import { TOOL_PRESETS, toolNames } from './tools.ts';
import { useRefusal } from './use-refusal.ts';
import { counted } from '../../format/number.ts';

/** API names of the parameters of this section. */
export const TOOL_PARAMETERS: readonly string[] = ['tools', 'tool_choice', 'parallel_tool_calls'];

/** The tools that the model may call, and how it may call them. */
export function ToolSection() {
  const { draft, errors } = usePlayground();
  const { change } = useActions();
  const { tools, toolChoice, parallelToolCalls } = draft.settings;
  const set = (values: Partial<typeof draft.settings>) => change({ type: 'settings', values });
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
      <div>
        <Switch
          checked={parallelToolCalls}
          disabled={names.length === 0}
          onChange={(checked) => set({ parallelToolCalls: checked })}
        >
          Parallel calls
        </Switch>
        <p className="mt-1 text-xs leading-5 text-ink-3">A response may have several calls. Default: on.</p>
      </div>
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
