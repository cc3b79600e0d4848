import { Button } from '../../components/button.tsx';
import { Segmented } from '../../components/choices.tsx';
import { TextArea, TextField } from '../../components/field.tsx';
import { useActions, usePlayground } from './state.tsx';
import { indented, readJson } from '../../format/json.ts';

/** The response format: text, a JSON object, or JSON with a schema. */
export function FormatFields() {
  const { draft, errors } = usePlayground();
  const { change } = useActions();
  const { format, schema, schemaName } = draft.settings;
  const set = (values: Partial<typeof draft.settings>) => change({ type: 'settings', values });
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
        <p className="mt-1.5 text-xs leading-5 text-ink-3">{HINTS[format]}</p>
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

const HINTS = {
  text: 'Unconstrained text (default)',
  json_object: 'One JSON object. Ask for JSON in the prompt as well.',
  json_schema: 'Constrains the output to match the schema.',
} as const;
