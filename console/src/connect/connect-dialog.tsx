import { CircleAlert, CircleCheck } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import type { ItemOf } from '../api/client.ts';
import { both, useKeys, useRead } from '../api/queries.ts';
import { CodeText } from '../components/code-text.tsx';
import { Code } from '../components/code.tsx';
import { BaseUrl } from '../components/copy.tsx';
import { Dialog } from '../components/dialog.tsx';
import { Field } from '../components/field.tsx';
import { TextLink } from '../components/link.tsx';
import { Select } from '../components/select.tsx';
import { Spinner } from '../components/spinner.tsx';
import { Loaded, Notice } from '../components/states.tsx';
import { exampleRequest, generatesText } from '../format/modality.ts';
import { outcomeOf } from '../requests/outcome.tsx';
import { KEY_VARIABLE, samplesOf } from '../snippets/samples.ts';
import { useAccount } from '../state/account.ts';
import { useSession } from '../state/session.tsx';
import { AGENTS } from './agents.ts';
import type { ConnectStart } from './open-connect.tsx';

type Model = ItemOf<'listServedModels'>;
type Key = ItemOf<'listKeys'>;

/** Shows how an app or an agent is connected with a key and a model, and whether its first request arrives. */
export function ConnectDialog({ onClose, ...start }: ConnectStart & { onClose: () => void }) {
  const account = useAccount();
  const models = useRead('listServedModels', undefined);
  const keys = useKeys({ account_id: account?.id ?? '' }, { enabled: account !== null });
  return (
    <Dialog open onClose={onClose} size="large" title="Connect an app" hint="Any OpenAI client works.">
      {account === null ? (
        <Notice>You are not a member of any account.</Notice>
      ) : (
        <Loaded query={both(models, keys)}>
          {([{ data }, { data: all }]) => (
            <Connection
              {...start}
              accountId={account.id}
              models={data.filter(({ invalid }) => !invalid)}
              keys={all.filter(({ status, kind }) => status === 'live' && kind === 'caller').toReversed()}
              onClose={onClose}
            />
          )}
        </Loaded>
      )}
    </Dialog>
  );
}

interface ConnectionProps extends ConnectStart {
  accountId: string;
  models: readonly Model[];
  keys: readonly Key[];
  onClose: () => void;
}

function Connection({ accountId, models, keys, onClose, ...start }: ConnectionProps) {
  const baseUrl = useSession().public_url.replace(/\/+$/, '');
  const [modelId, setModel] = useState(start.model ?? models[0]?.id);
  const [keyId, setKey] = useState(start.keyId ?? keys[0]?.id);
  const [wanted, setTool] = useState('curl');
  const model = models.find(({ id }) => id === modelId);
  const key = keys.find(({ id }) => id === keyId);
  if (model === undefined) return <Notice tone="warn">There is no model to connect to.</Notice>;
  const tools = toolsOf(model, baseUrl);
  const tool = tools.find(({ name }) => name === wanted) ?? tools[0];
  return (
    <div className="space-y-4">
      <div className="grid gap-4 sm:grid-cols-3">
        <Field label="API key">
          <Select
            value={keyId ?? ''}
            choices={keys.map(({ id, name }) => ({ value: id, label: name }))}
            onChange={setKey}
          />
        </Field>
        <Field label="Model">
          <Select
            value={model.id}
            choices={models.map(({ id }) => ({ value: id, label: id }))}
            onChange={setModel}
          />
        </Field>
        <Field label="Tool">
          <Select
            value={tool?.name ?? ''}
            choices={tools.map(({ name }) => ({ value: name, label: name }))}
            onChange={setTool}
          />
        </Field>
      </div>
      <BaseUrl url={`${baseUrl}/v1`} />
      {tool && (
        <>
          <p className="text-xs leading-5 text-ink-3">
            {tool.place} Set <code className="font-mono">SLUICE_API_KEY</code> to the API key
            {key && (
              <code className="font-mono">
                {' '}
                {key.prefix}…{key.last_four}
              </code>
            )}
            , which was shown when it was created. <TextLink to="/docs/guide/agents">More tools</TextLink>
          </p>
          <Code
            text={tool.text}
            what="code"
            label={`Configuration of ${tool.name}`}
            language={tool.language}
          />
        </>
      )}
      {key === undefined ? (
        <Notice tone="warn">
          There is no key to connect with. <TextLink to="/keys?create=1">Create key</TextLink>
        </Notice>
      ) : (
        <FirstRequest key={key.id} accountId={accountId} apiKey={key} onClose={onClose} />
      )}
    </div>
  );
}

/** Returns the clients and, for models that generate text, the agents, with their finished configuration. */
function toolsOf(model: Model, baseUrl: string) {
  const generates = generatesText(model);
  const request = { ...exampleRequest(model), ...(generates && { stream: true }) };
  const samples = samplesOf({ baseUrl, key: KEY_VARIABLE, request });
  const clients = samples.map(({ language, text }) => ({ name: language, place: '', language, text }));
  if (!generates) return clients;
  const input = { baseUrl, model: model.id, contextTokens: model.context_length };
  return [...clients, ...AGENTS.map((agent) => ({ ...agent, text: agent.text(input) }))];
}

const EVERY_MS = 2000;

/** Waits for the first request with the key since this was opened, and shows its result. */
function FirstRequest({
  accountId,
  apiKey,
  onClose,
}: {
  accountId: string;
  apiKey: Key;
  onClose: () => void;
}) {
  const query = { account_id: accountId, key_id: apiKey.id };
  const requests = useRead('listRequests', { query: { ...query, limit: 1 } }, { everyMs: EVERY_MS });
  const refusals = useRead('listRefusals', { query: { ...query, hours: 1 } }, { everyMs: EVERY_MS });
  const [request, refusal] = [requests.data?.data[0], refusals.data?.data[0]];
  /** The latest before: a clock of this browser can be wrong. */
  const [before, setBefore] = useState<{ request: string | undefined; refused: string | undefined }>();
  if (before === undefined && requests.isFetchedAfterMount && refusals.isFetchedAfterMount)
    setBefore({ request: request?.id, refused: refusal?.last_at });
  const error = requests.error ?? refusals.error;
  if (error !== null) return <Notice tone="bad">{error.message}</Notice>;
  if (before !== undefined && request !== undefined && request.id !== before.request) {
    const { tone, meaning } = outcomeOf(request);
    return (
      <Result tone={request.state === 'open' ? 'wait' : tone === 'good' ? 'good' : 'bad'}>
        {request.state === 'open'
          ? 'The first request is running.'
          : tone === 'good'
            ? 'Connected.'
            : meaning}{' '}
        <TextLink to={`/requests/${encodeURIComponent(request.id)}`} onClick={onClose}>
          View receipt
        </TextLink>
      </Result>
    );
  }
  if (before !== undefined && refusal !== undefined && refusal.last_at !== before.refused) {
    return (
      <Result tone="bad">
        The request was refused: <CodeText text={refusal.message} />
      </Result>
    );
  }
  return <Result tone="wait">Waiting for the first request with the key {apiKey.name}</Result>;
}

function Result({ tone, children }: { tone: 'wait' | 'good' | 'bad'; children: ReactNode }) {
  const icon = {
    wait: <Spinner />,
    good: <CircleCheck className="size-5 shrink-0 text-good" />,
    bad: <CircleAlert className="size-5 shrink-0 text-bad" />,
  }[tone];
  return (
    <div
      role="status"
      className="flex items-center gap-3 rounded-lg border border-line px-4 py-3 text-sm text-ink-2"
    >
      {icon}
      <p className="min-w-0 wrap-anywhere">{children}</p>
    </div>
  );
}
