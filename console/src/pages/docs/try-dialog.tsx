import { useId, useState } from 'react';
import type { ApiDocument } from '../../api/document.ts';
import { Button } from '../../components/button.tsx';
import { Confirm } from '../../components/confirm.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Field, TextArea, TextField } from '../../components/field.tsx';
import { Select } from '../../components/select.tsx';
import { Notice } from '../../components/states.tsx';
import { readJson } from '../../format/json.ts';
import { JSON_SYNTAX, literal } from '../../snippets/literal.ts';
import { addressOf, exampleBody } from './example.ts';
import { MethodBadge } from './method-badge.tsx';
import type { Entry } from '../../api/operations.ts';
import { TryResponse } from './try-response.tsx';
import { useTry } from './use-try.ts';

interface TryDialogProps {
  entry: Entry;
  schemas: ApiDocument['components']['schemas'];
  model: string;
  /** The current account; null: none. */
  accountId: string | null;
  onClose: () => void;
}

/** Sends a real request, as the signed-in user or with a short-lived key of the account. */
export default function TryDialog({ entry, schemas, model, accountId, onClose }: TryDialogProps) {
  const form = useId();
  const [given, setGiven] = useState<Readonly<Record<string, string>>>(() =>
    firstValues(entry, model, accountId),
  );
  const [body, setBody] = useState(() => {
    const example = exampleBody(entry, schemas, { model, accountId: accountId ?? 'default' });
    return example === null ? null : literal(example, JSON_SYNTAX, 0, Infinity);
  });
  const [asking, setAsking] = useState(false);
  const { response, running, send, stop } = useTry();
  const path = addressOf(entry, given);
  const missing = /\{(\w+)\}/.exec(path)?.[1];
  const read = body === null ? null : readJson(body);
  const wrong = read !== null && 'error' in read ? read.error : null;
  const inference = entry.path.startsWith('/v1/');
  const run = () => send({ method: entry.method, path, body, inference, accountId });
  return (
    <Dialog
      open
      side
      onClose={() => {
        stop();
        onClose();
      }}
      title={entry.title}
      hint={entry.summary}
      actions={
        <>
          {running && <Button onClick={stop}>Stop</Button>}
          <Button
            kind="primary"
            type="submit"
            form={form}
            busy={running}
            disabled={missing !== undefined || wrong !== null}
          >
            Send
          </Button>
        </>
      }
    >
      <form
        id={form}
        className="space-y-4"
        onSubmit={(event) => {
          event.preventDefault();
          // Inference costs little, and GET requests change nothing; all other requests need confirmation.
          if (inference || entry.method === 'GET') run();
          else setAsking(true);
        }}
      >
        <p className="flex flex-wrap items-center gap-2">
          <MethodBadge method={entry.method} />
          <code className="font-mono text-xs break-all text-ink-2">{path}</code>
        </p>
        <p className="text-xs leading-5 text-ink-3">
          {inference
            ? "Uses a temporary API key, subject to the account's limits."
            : 'Uses your console session.'}
        </p>
        {entry.parameters.map((parameter) => (
          <ParameterField
            key={parameter.name}
            parameter={parameter}
            value={given[parameter.name] ?? ''}
            onChange={(value) => setGiven((current) => ({ ...current, [parameter.name]: value }))}
          />
        ))}
        {body !== null && (
          <TextArea
            label="Body"
            aside="JSON"
            mono
            rows={Math.min(18, Math.max(4, body.split('\n').length + 1))}
            spellCheck={false}
            value={body}
            error={wrong}
            onChange={(event) => setBody(event.target.value)}
          />
        )}
        {inference && accountId === null && (
          <Notice tone="warn">You are not a member of any account. This request needs an account.</Notice>
        )}
      </form>
      <TryResponse response={response} running={running} />
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title={`Send ${entry.method} ${entry.path}?`}
        action="Send request"
        danger={entry.method === 'DELETE'}
        onConfirm={() => {
          setAsking(false);
          run();
        }}
      >
        <p>{entry.summary}</p>
        <p>This sends a real request as you.</p>
      </Confirm>
    </Dialog>
  );
}

function ParameterField({
  parameter: { name, in: place, required = false, schema },
  value,
  onChange,
}: {
  parameter: Entry['parameters'][number];
  value: string;
  onChange: (value: string) => void;
}) {
  const aside = place === 'path' ? 'path' : required ? 'query' : 'query, optional';
  if (schema.enum !== undefined) {
    const choices = schema.enum.map((one) => ({ value: String(one), label: String(one) }));
    return (
      <Field label={name} aside={aside}>
        <Select
          value={value}
          choices={required ? choices : [{ value: '', label: 'Not set' }, ...choices]}
          onChange={onChange}
        />
      </Field>
    );
  }
  return (
    <TextField
      label={name}
      aside={aside}
      mono
      autoComplete="off"
      spellCheck={false}
      required={required}
      value={value}
      onChange={(event) => onChange(event.target.value)}
    />
  );
}

/** Returns initial parameter values. */
function firstValues(entry: Entry, model: string, accountId: string | null): Record<string, string> {
  const [namespace = '', name = ''] = model.split('/');
  return {
    ...(accountId !== null && { account_id: accountId }),
    ...(entry.id === 'getModel' && { namespace, name }),
  };
}
