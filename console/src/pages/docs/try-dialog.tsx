import { useCallback, useEffect, useId, useRef, useState } from 'react';
import type { Entry } from '../../api/operations.ts';
import { playgroundKey } from '../../api/playground-key.ts';
import { rawCall } from '../../api/raw-call.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Code } from '../../components/code.tsx';
import { Confirm } from '../../components/confirm.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Field, TextArea, TextField } from '../../components/field.tsx';
import { Select } from '../../components/select.tsx';
import { Notice } from '../../components/states.tsx';
import { indented, readJson } from '../../format/json.ts';
import { duration } from '../../format/time.ts';
import { JSON_SYNTAX, literal } from '../../snippets/literal.ts';
import { addressOf, exampleBody } from './example.ts';
import { MethodBadge } from './method-badge.tsx';
import type { Schemas } from './schema.ts';

interface TryDialogProps {
  entry: Entry;
  schemas: Schemas;
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

/** A request to send. */
interface TryCall {
  method: string;
  path: string;
  body: string | null;
  /** Sent with a short-lived key of the account, else as the user. */
  inference: boolean;
  accountId: string | null;
}

/** The response so far. */
interface TryResult {
  /** Null: no response yet. */
  status: number | null;
  /** Relevant headers. */
  headers: readonly (readonly [name: string, value: string])[];
  headersMs: number | null;
  text: string;
  /** Why there is no response, or why it is incomplete. */
  fault: string | null;
}

/** Longer responses are truncated to this many UTF-16 units. */
const MAX_TEXT = 200_000;

/** Headers that are relevant for callers. */
const OF_INTEREST = /^(?:content-type|x-request-id|x-ratelimit-.*|retry-after.*|location)$/;

/** Sends one request at a time and tracks its response. Unmounting cancels it. */
function useTry() {
  const [response, setResponse] = useState<TryResult | null>(null);
  const [running, setRunning] = useState(false);
  const current = useRef<AbortController | null>(null);
  const stop = useCallback(() => current.current?.abort(), []);
  useEffect(() => stop, [stop]);
  const send = (call: TryCall) => {
    stop();
    const abort = new AbortController();
    current.current = abort;
    setRunning(true);
    setResponse(null);
    void follow(call, abort.signal, (result) => {
      if (current.current === abort) setResponse(result);
    }).finally(() => {
      if (current.current === abort) setRunning(false);
    });
  };
  return { response, running, send, stop };
}

async function follow(call: TryCall, signal: AbortSignal, show: (result: TryResult) => void): Promise<void> {
  let result: TryResult = { status: null, headers: [], headersMs: null, text: '', fault: null };
  try {
    const key = call.inference && call.accountId !== null ? await playgroundKey(call.accountId) : null;
    const { status, headers, headersMs, pieces } = await rawCall({ ...call, key }, signal);
    const shown = [...headers].filter(([name]) => OF_INTEREST.test(name));
    result = { ...result, status, headersMs, headers: shown };
    show(result);
    for await (const piece of pieces) {
      result = { ...result, text: result.text + piece };
      show(result);
      if (result.text.length > MAX_TEXT) throw new RangeError('The response is too long to show in full.');
    }
    show({ ...result, text: indented(result.text) });
  } catch (error) {
    const fault = signal.aborted ? 'Stopped.' : error instanceof Error ? error.message : String(error);
    show({ ...result, fault });
  }
}

/** The response of a request: status, relevant headers, and the body as it arrives. */
function TryResponse({ response, running }: { response: TryResult | null; running: boolean }) {
  return (
    <section aria-label="Response" className="mt-6 border-t border-line pt-5 empty:hidden">
      <p role="status" className="flex min-h-5 flex-wrap items-center gap-2 text-xs text-ink-3">
        {response?.status !== null && response !== null ? (
          <>
            <Badge tone={response.status < 300 ? 'good' : response.status < 500 ? 'warn' : 'bad'}>
              <span className="font-mono">{response.status}</span>
            </Badge>
            {response.headersMs !== null && `response started after ${duration(response.headersMs)}`}
            {running && ', still receiving'}
          </>
        ) : running ? (
          'Waiting for the response'
        ) : (
          response === null && 'The response will appear here.'
        )}
      </p>
      {response !== null && response.headers.length > 0 && (
        <dl className="mt-3 grid gap-x-4 gap-y-1 font-mono text-2xs leading-4 sm:grid-cols-[auto_minmax(0,1fr)]">
          {response.headers.map(([name, value]) => (
            <div key={name} className="flex flex-wrap gap-x-2 sm:contents">
              <dt className="text-ink-3">{name}</dt>
              <dd className="break-all text-ink-2">{value}</dd>
            </div>
          ))}
        </dl>
      )}
      {response !== null && response.text !== '' && (
        <div className="mt-3">
          <Code text={response.text} what="response" label="Response body" language="json" />
        </div>
      )}
      {response?.fault !== null && response !== null && (
        <div className="mt-3">
          <Notice tone="bad">{response.fault}</Notice>
        </div>
      )}
    </section>
  );
}
