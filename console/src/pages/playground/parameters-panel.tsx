import { ChevronRight } from 'lucide-react';
import { useId, useState, type ReactNode } from 'react';
import { Button } from '../../components/button.tsx';
import { Switch } from '../../components/choices.tsx';
import { TextArea, TextField } from '../../components/field.tsx';
import { useActions, usePlayground } from './context.ts';
import { FormatFields } from './format-fields.tsx';
import { NumberField, Reset } from './number-field.tsx';
import { CHOICES, COMMON, PENALTIES, SAMPLING, TEXT_TOP_LOGPROBS, TOP_LOGPROBS } from './parameters.ts';
import { advancedSet, DEFAULTS, MAX_TEXT_LENGTH, MAX_BIASES } from './settings.ts';
import { StopFields } from './stop-fields.tsx';

/** All request parameters: the common ones first, the others below "Advanced". Empty parameters are not sent. */
export function ParametersPanel() {
  const { draft } = usePlayground();
  const { change } = useActions();
  return (
    <div className="flex flex-col gap-6">
      {COMMON.map((parameter) => (
        <NumberField key={parameter.name} parameter={parameter} />
      ))}
      <Advanced />
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

/** The less common parameters, collapsed. Invalid input in one of them keeps the section open. */
function Advanced() {
  const { draft, faults } = usePlayground();
  const content = useId();
  const [wanted, setWanted] = useState(false);
  const common = new Set<string>(COMMON.map(({ name }) => name));
  const open = wanted || Object.keys(faults).some((name) => !common.has(name));
  const set = advancedSet(draft.settings, draft.mode);
  return (
    <section className="border-y border-line">
      <h2>
        <button
          type="button"
          aria-expanded={open}
          aria-controls={content}
          onClick={() => setWanted(!open)}
          className="flex h-11 w-full items-center gap-2 text-left text-sm font-medium"
        >
          <ChevronRight
            className={`size-4 shrink-0 text-ink-3 transition-transform ${open ? 'rotate-90' : ''}`}
            aria-hidden="true"
          />
          Advanced
          {set > 0 && <span className="ml-auto text-xs font-normal text-ink-3">{set} set</span>}
        </button>
      </h2>
      <div id={content} hidden={!open} className="space-y-6 pt-2 pb-6">
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
      </div>
    </section>
  );
}

function Group({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="flex flex-col gap-4">
      <h3 className="text-2xs font-medium tracking-wide text-ink-3 uppercase">{title}</h3>
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

function OtherFields() {
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
        error={faults['user']}
        hint={`Identifies your end user. Does not affect the completion. At most ${MAX_TEXT_LENGTH} characters.`}
        autoComplete="off"
        onChange={(event) => set({ user: event.target.value })}
      />
    </>
  );
}
