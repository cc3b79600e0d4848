import { Plus, X } from 'lucide-react';
import type { ReactNode } from 'react';
import { Button, IconButton } from '../../components/button.tsx';
import { Segmented, Switch } from '../../components/choices.tsx';
import { classNames } from '../../components/class-names.ts';
import { TextArea, TextField } from '../../components/field.tsx';
import { INPUT } from '../../components/input.ts';
import { indented, readJson } from '../../format/json.ts';
import { CHAT_PARAMETERS, ReasoningSection, ToolSection } from './chat-parameters.tsx';
import { NumberField, Reset, Section, useSettings } from './parameter-fields.tsx';
import { PresetsButton } from './presets-dialog.tsx';
import {
  advancedSet,
  areDefaults,
  CHOICES,
  COMMON,
  DEFAULTS,
  MAX_STOPS,
  MAX_TEXT_LENGTH,
  PENALTIES,
  SAMPLING,
  TOP_LOGPROBS,
} from './settings.ts';

/** All request parameters: the common ones first, the others in collapsed sections. Empty parameters are not sent. */
export function ParametersPanel() {
  const { settings, set } = useSettings();
  return (
    <div className="flex flex-col gap-6">
      {COMMON.map((parameter) => (
        <NumberField key={parameter.name} parameter={parameter} />
      ))}
      <div>
        <ToolSection />
        <ReasoningSection />
        <Advanced />
      </div>
      <div className="flex flex-wrap gap-2">
        <PresetsButton />
        <Button disabled={areDefaults(settings)} onClick={() => set(DEFAULTS)}>
          Reset all parameters
        </Button>
      </div>
    </div>
  );
}

/** The less common parameters. */
function Advanced() {
  const { settings } = useSettings();
  const count = advancedSet(settings);
  return (
    <Section title="Advanced" note={count > 0 ? `${count} set` : null} contains={isAdvanced}>
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

const OTHER_SECTIONS: ReadonlySet<string> = new Set([...COMMON.map(({ name }) => name), ...CHAT_PARAMETERS]);
const isAdvanced = (name: string): boolean => !OTHER_SECTIONS.has(name);

function Group({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="flex flex-col gap-4">
      <h3 className="text-2xs font-medium tracking-wide text-ink-3 uppercase">{title}</h3>
      {children}
    </section>
  );
}

/** Inputs for stop sequences. */
function StopFields() {
  const { settings, errors, set } = useSettings();
  const { stop } = settings;
  return (
    <fieldset className="flex flex-col gap-1.5">
      <legend className="mb-1.5 text-xs font-medium text-ink-2">Stop sequences</legend>
      {stop.map((typed, index) => {
        const error = errors[`stop[${index}]`];
        return (
          // Sequences have no id.
          <div key={`${index}`}>
            <div className="flex items-center gap-1">
              <input
                aria-label={`Stop sequence ${index + 1}`}
                aria-invalid={error !== undefined}
                value={typed}
                autoComplete="off"
                onChange={(event) => set({ stop: stop.with(index, event.target.value) })}
                className={classNames(INPUT, 'h-8 font-mono text-xs')}
              />
              <IconButton
                label={`Remove stop sequence ${index + 1}`}
                onClick={() => set({ stop: stop.filter((_, other) => other !== index) })}
              >
                <X className="size-4" aria-hidden="true" />
              </IconButton>
            </div>
            {error !== undefined && <p className="mt-1 text-xs text-bad">{error}</p>}
          </div>
        );
      })}
      {stop.length < MAX_STOPS && (
        <Button
          size="small"
          className="self-start"
          icon={<Plus className="size-3.5" aria-hidden="true" />}
          onClick={() => set({ stop: [...stop, ''] })}
        >
          Add sequence
        </Button>
      )}
      <p className="text-xs leading-5 text-ink-3">
        Generation stops as soon as one of these sequences appears. At most {MAX_STOPS}. Use \n for a new
        line, \t for a tab and \\ for a backslash.
      </p>
    </fieldset>
  );
}

/** The response format: text, a JSON object, or JSON with a schema. */
function FormatFields() {
  const { settings, errors, set } = useSettings();
  const { format, schema, schemaName } = settings;
  return (
    <fieldset className="flex flex-col gap-3">
      <legend className="mb-1.5 text-xs font-medium text-ink-2">Response format</legend>
      <div>
        <Segmented
          label="Response format"
          value={format}
          choices={[
            { value: 'text', label: 'Text' },
            { value: 'json_object', label: 'JSON' },
            { value: 'json_schema', label: 'JSON schema' },
          ]}
          onChange={(chosen) => set({ format: chosen })}
        />
        <p className="mt-1.5 text-xs leading-5 text-ink-3">{FORMAT_HINTS[format]}</p>
      </div>
      {format === 'json_schema' && (
        <>
          <TextField
            label="Schema name"
            value={schemaName}
            error={errors['schemaName']}
            mono
            autoComplete="off"
            onChange={(event) => set({ schemaName: event.target.value })}
          />
          <TextArea
            label="Schema"
            value={schema}
            error={errors['schema']}
            hint="JSON Schema. Unsupported keywords are reported when you send the request."
            mono
            rows={12}
            spellCheck={false}
            onChange={(event) => set({ schema: event.target.value })}
          />
          <Button
            size="small"
            className="self-start"
            disabled={'error' in readJson(schema)}
            onClick={() => set({ schema: indented(schema) })}
          >
            Format schema
          </Button>
        </>
      )}
    </fieldset>
  );
}

const FORMAT_HINTS = {
  text: 'Unconstrained text (default)',
  json_object: 'One JSON object. Ask for JSON in the prompt as well.',
  json_schema: 'Constrains the output to match the schema.',
} as const;

function OutputSwitches() {
  const { settings, set } = useSettings();
  const { logprobs, stream } = settings;
  return (
    <>
      <WithHint hint="Returns the log probability of each token. Default: off.">
        <Switch checked={logprobs} onChange={(checked) => set({ logprobs: checked })}>
          Log probabilities
        </Switch>
      </WithHint>
      {logprobs && <NumberField parameter={TOP_LOGPROBS} />}
      <WithHint hint="Shows tokens as they are generated. The API default is off.">
        <Switch checked={stream} onChange={(checked) => set({ stream: checked })}>
          Stream
        </Switch>
      </WithHint>
    </>
  );
}

function WithHint({ hint, children }: { hint: string; children: ReactNode }) {
  return (
    <div>
      {children}
      <p className="mt-1 text-xs leading-5 text-ink-3">{hint}</p>
    </div>
  );
}

function OtherFields() {
  const { settings, errors, set } = useSettings();
  const { user } = settings;
  return (
    <TextField
      label="User"
      aside={<Reset label="User" isSet={user !== ''} onReset={() => set({ user: '' })} />}
      value={user}
      error={errors['user']}
      hint={`Identifies your end user. Does not affect the completion. At most ${MAX_TEXT_LENGTH} characters.`}
      autoComplete="off"
      onChange={(event) => set({ user: event.target.value })}
    />
  );
}
