import type { ReactNode } from 'react';
import { Button } from '../../components/button.tsx';
import { Switch } from '../../components/choices.tsx';
import { TextArea, TextField } from '../../components/field.tsx';
import { useActions, usePlayground } from './state.tsx';
import { FormatFields } from './format-fields.tsx';
import { NumberField, Reset } from './number-field.tsx';
import {
  CHOICES,
  COMMON,
  PENALTIES,
  SAMPLING,
  TOP_LOGPROBS,
  advancedSet,
  areDefaults,
  DEFAULTS,
  MAX_TEXT_LENGTH,
  MAX_BIASES,
} from './settings.ts';
import { ReasoningSection, REASONING_PARAMETERS } from './reasoning-fields.tsx';
import { Section } from './section.tsx';
import { StopFields } from './stop-fields.tsx';
import { ToolSection, TOOL_PARAMETERS } from './tool-fields.tsx';

/** All request parameters: the common ones first, the others in collapsed sections. Empty parameters are not sent. */
export function ParametersPanel() {
  const { draft } = usePlayground();
  const { change } = useActions();
  return (
    <div className="flex flex-col gap-6">
      {COMMON.map((parameter) => (
        <NumberField key={parameter.name} parameter={parameter} />
      ))}
      <div>
        {draft.mode === 'chat' && (
          <>
            <ToolSection />
            <ReasoningSection />
          </>
        )}
        <Advanced />
      </div>
      <Button
        className="self-start"
        disabled={areDefaults(draft.settings)}
        onClick={() => change({ type: 'settings', values: DEFAULTS })}
      >
        Reset all parameters
      </Button>
    </div>
  );
}

/** The less common parameters. */
function Advanced() {
  const { draft } = usePlayground();
  const set = advancedSet(draft.settings, draft.mode);
  return (
    <Section title="Advanced" note={set > 0 ? `${set} set` : null} contains={isAdvanced}>
      <Group title="Sampling">
        {SAMPLING.map((parameter) => (
          <NumberField key={parameter.name} parameter={parameter} />
        ))}
      </Group>
      <Group title="Penalties">
        {PENALTIES.map((parameter) => (
          <NumberField key={parameter.name} parameter={parameter} />
        ))}
      </Group>
      <Group title="Output">
        <StopFields />
        <FormatFields />
        <NumberField parameter={CHOICES} />
        <OutputSwitches />
      </Group>
      <Group title="Other">
        <OtherFields />
      </Group>
    </Section>
  );
}

const OTHER_SECTIONS: ReadonlySet<string> = new Set([
  ...COMMON.map(({ name }) => name),
  ...TOOL_PARAMETERS,
  ...REASONING_PARAMETERS,
]);
const isAdvanced = (name: string): boolean => !OTHER_SECTIONS.has(name);

function Group({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="flex flex-col gap-4">
      <h3 className="text-2xs font-medium tracking-wide text-ink-3 uppercase">{title}</h3>
      {children}
    </section>
  );
}

function OutputSwitches() {
  const { draft, errors } = usePlayground();
  const { change } = useActions();
  const { logprobs, echo, stream } = draft.settings;
  return (
    <>
      <WithHint hint="Returns the log probability of each token. Default: off.">
        <Switch
          checked={logprobs}
          onChange={(checked) => change({ type: 'settings', values: { logprobs: checked } })}
        >
          Log probabilities
        </Switch>
      </WithHint>
      {logprobs && <NumberField parameter={TOP_LOGPROBS[draft.mode]} />}
      {draft.mode === 'text' && (
        <WithHint hint="Includes the prompt in the completion. Default: off." error={errors['echo']}>
          <Switch
            checked={echo}
            onChange={(checked) => change({ type: 'settings', values: { echo: checked } })}
          >
            Echo
          </Switch>
        </WithHint>
      )}
      <WithHint hint="Shows tokens as they are generated. The API default is off.">
        <Switch
          checked={stream}
          onChange={(checked) => change({ type: 'settings', values: { stream: checked } })}
        >
          Stream
        </Switch>
      </WithHint>
    </>
  );
}

function WithHint({
  hint,
  error,
  children,
}: {
  hint: string;
  error?: string | undefined;
  children: ReactNode;
}) {
  return (
    <div>
      {children}
      <p className={`mt-1 text-xs leading-5 ${error === undefined ? 'text-ink-3' : 'text-bad'}`}>
        {error ?? hint}
      </p>
    </div>
  );
}

function OtherFields() {
  const { draft, errors } = usePlayground();
  const { change } = useActions();
  const { logitBias, user } = draft.settings;
  const set = (values: Partial<typeof draft.settings>) => change({ type: 'settings', values });
  return (
    <>
      <TextArea
        label="Logit bias"
        aside={<Reset label="Logit bias" isSet={logitBias !== ''} onReset={() => set({ logitBias: '' })} />}
        value={logitBias}
        error={errors['logit_bias']}
        placeholder='{ "198": -100 }'
        hint={`Adds a value from -100 to 100 to the logit of each token ID. At most ${MAX_BIASES} tokens. Default: none.`}
        mono
        rows={2}
        spellCheck={false}
        onChange={(event) => set({ logitBias: event.target.value })}
      />
      <TextField
        label="User"
        aside={<Reset label="User" isSet={user !== ''} onReset={() => set({ user: '' })} />}
        value={user}
        error={errors['user']}
        hint={`Identifies your end user. Does not affect the completion. At most ${MAX_TEXT_LENGTH} characters.`}
        autoComplete="off"
        onChange={(event) => set({ user: event.target.value })}
      />
    </>
  );
}
