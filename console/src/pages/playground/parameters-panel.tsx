import type { ReactNode } from 'react';
import { Button } from '../../components/button.tsx';
import { Switch } from '../../components/choices.tsx';
import { TextArea, TextField } from '../../components/field.tsx';
import { useActions, usePlayground } from './context.ts';
import { FormatFields } from './format-fields.tsx';
import { NumberField, Reset } from './number-field.tsx';
import { CHOICES, LENGTH, PENALTIES, SAMPLING, TEXT_TOP_LOGPROBS, TOP_LOGPROBS } from './parameters.ts';
import { DEFAULTS, MAX_TEXT_LENGTH, MAX_BIASES } from './settings.ts';
import { StopFields } from './stop-fields.tsx';

/** All request parameters. Empty parameters are not sent. */
export function ParametersPanel() {
  const { draft } = usePlayground();
  const { change } = useActions();
  return (
    <div className="flex flex-col gap-6">
      <Group title="Length">
        {LENGTH.map((parameter) => (
          <NumberField key={parameter.name} parameter={parameter} />
        ))}
        <StopFields />
      </Group>
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
        <FormatFields />
        <NumberField parameter={CHOICES} />
        <OutputSwitches />
      </Group>
      <Group title="Advanced">
        <AdvancedFields />
      </Group>
      <Button
        className="self-start"
        disabled={draft.settings === DEFAULTS}
        onClick={() => change({ type: 'settings', values: DEFAULTS })}
      >
        Reset all parameters
      </Button>
    </div>
  );
}

function Group({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="flex flex-col gap-4">
      <h2 className="text-2xs font-medium tracking-wide text-ink-3 uppercase">{title}</h2>
      {children}
    </section>
  );
}

function OutputSwitches() {
  const { draft, faults } = usePlayground();
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
      {logprobs && <NumberField parameter={draft.mode === 'chat' ? TOP_LOGPROBS : TEXT_TOP_LOGPROBS} />}
      {draft.mode === 'text' && (
        <WithHint hint="Includes the prompt in the completion. Default: off." fault={faults['echo']}>
          <Switch
            checked={echo}
            onChange={(checked) => change({ type: 'settings', values: { echo: checked } })}
          >
            Echo
          </Switch>
        </WithHint>
      )}
      <WithHint hint="Shows tokens as they are generated. The default of the API is off.">
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
  fault,
  children,
}: {
  hint: string;
  fault?: string | undefined;
  children: ReactNode;
}) {
  return (
    <div>
      {children}
      <p className={`mt-1 text-xs leading-5 ${fault === undefined ? 'text-ink-3' : 'text-bad'}`}>
        {fault ?? hint}
      </p>
    </div>
  );
}

function AdvancedFields() {
  const { draft, faults } = usePlayground();
  const { change } = useActions();
  const { logitBias, user } = draft.settings;
  const set = (values: Partial<typeof draft.settings>) => change({ type: 'settings', values });
  return (
    <>
      <TextArea
        label="Logit bias"
        aside={<Reset label="Logit bias" isSet={logitBias !== ''} onReset={() => set({ logitBias: '' })} />}
        value={logitBias}
        error={faults['logit_bias']}
        placeholder='{ "198": -100 }'
        hint={`Adds a value from -100 to 100 to the logits of token IDs. At most ${MAX_BIASES} tokens. Default: none.`}
        mono
        rows={2}
        spellCheck={false}
        onChange={(event) => set({ logitBias: event.target.value })}
      />
      <TextField
        label="User"
        aside={<Reset label="User" isSet={user !== ''} onReset={() => set({ user: '' })} />}
        value={user}
        error={faults['user']}
        hint={`Identifies your end user. Does not affect the completion. At most ${MAX_TEXT_LENGTH} characters.`}
        autoComplete="off"
        onChange={(event) => set({ user: event.target.value })}
      />
    </>
  );
}
