import { Bookmark } from 'lucide-react';
import { lazy, Suspense, useState, type ReactNode } from 'react';
import { Button } from '../../components/button.tsx';
import { Segmented } from '../../components/choices.tsx';
import { TextArea, TextField } from '../../components/field.tsx';
import { indented, readJson } from '../../format/json.ts';
import { CHAT_PARAMETERS, ReasoningSection, ToolSection } from './chat-parameters.tsx';
import { HintedSwitch, NumberField, Reset, Section, useSettings } from './parameter-fields.tsx';
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

const PresetsDialog = lazy(async () => ({ default: (await import('./stored-lists.tsx')).PresetsDialog }));

function PresetsButton() {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button icon={<Bookmark />} onClick={() => setOpen(true)}>
        Presets
      </Button>
      {open && (
        <Suspense>
          <PresetsDialog onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </>
  );
}

function Advanced() {
  const { settings, errors, set } = useSettings();
  const { logprobs, stop, stream, user } = settings;
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
        <TextArea
          label="Stop sequences"
          value={stop.join('\n')}
          error={errors['stop'] ?? stop.map((_, index) => errors[`stop[${index}]`]).find(Boolean)}
          hint={`Generation stops as soon as one of them appears. One per line, at most ${MAX_STOPS}. Use \\n for a new line, \\t for a tab and \\\\ for a backslash.`}
          mono
          rows={2}
          spellCheck={false}
          onChange={(event) => set({ stop: event.target.value.split('\n') })}
        />
        <FormatFields />
        <NumberField parameter={CHOICES} />
        <HintedSwitch
          label="Log probabilities"
          hint="Returns the log probability of each token. Default: off."
          checked={logprobs}
          onChange={(checked) => set({ logprobs: checked })}
        />
        {logprobs && <NumberField parameter={TOP_LOGPROBS} />}
        <HintedSwitch
          label="Stream"
          hint="Shows tokens as they are generated. The API default is off."
          checked={stream}
          onChange={(checked) => set({ stream: checked })}
        />
      </Group>
      <Group title="Other">
        <TextField
          label="User"
          aside={<Reset label="User" isSet={user !== ''} onReset={() => set({ user: '' })} />}
          value={user}
          error={errors['user']}
          hint={`Identifies your end user. Does not affect the completion. At most ${MAX_TEXT_LENGTH} characters.`}
          autoComplete="off"
          onChange={(event) => set({ user: event.target.value })}
        />
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
