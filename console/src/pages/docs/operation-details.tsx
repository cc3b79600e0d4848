import type { ReactNode } from 'react';
import type { Entry, Response } from '../../api/operations.ts';
import { Badge, type Tone } from '../../components/badge.tsx';
import { ButtonLink } from '../../components/button.tsx';
import { CodeText } from '../../components/code-text.tsx';
import { Code, CodeTabs } from '../../components/code.tsx';
import { CopyButton } from '../../components/copy.tsx';
import { LazyDisclosure } from '../../components/disclosure.tsx';
import { curl } from '../../snippets/curl.ts';
import { KEY_VARIABLE, samplesAt } from '../../snippets/samples.ts';
import { useSession } from '../../state/session.tsx';
import { addressOf, exampleBody } from './example.ts';
import { SchemaFields, ShapeLine } from './schema-fields.tsx';
import { shapeOf, type Schemas } from './schema.ts';

interface OperationDetailsProps {
  entry: Entry;
  schemas: Schemas;
  model: string;
  accountId: string;
}

const PLAYGROUNDS: Readonly<Record<string, string>> = {
  createChatCompletion: '/playground',
  createEmbeddings: '/playground?mode=embeddings',
};

export function OperationDetails(props: OperationDetailsProps) {
  const { entry, schemas } = props;
  const playground = PLAYGROUNDS[entry.id];
  return (
    <div className="@container min-w-0">
      <Address entry={entry} />
      <div className="grid gap-x-8 gap-y-6 @3xl:grid-cols-2">
        <div className="min-w-0 @3xl:order-last">
          <div className="space-y-3 @3xl:sticky @3xl:top-6">
            <OperationExample {...props} />
            {playground !== undefined && (
              <ButtonLink size="small" to={playground}>
                Try in playground
              </ButtonLink>
            )}
          </div>
        </div>
        <div className="min-w-0 space-y-8">
          <Parameters {...props} />
          {entry.body !== null && (
            <OperationSection title="Request body">
              <SchemaFields schema={entry.body} schemas={schemas} marked="required" />
            </OperationSection>
          )}
          <OperationResponses entry={entry} schemas={schemas} />
        </div>
      </div>
    </div>
  );
}

const TONES: Readonly<Record<string, Tone>> = {
  GET: 'accent',
  POST: 'good',
  PUT: 'warn',
  PATCH: 'warn',
  DELETE: 'bad',
};

export function MethodBadge({ method }: { method: string }) {
  return (
    <Badge tone={TONES[method] ?? 'neutral'}>
      <span className="font-mono">{method}</span>
    </Badge>
  );
}

function Address({ entry: { method, path, access } }: Pick<OperationDetailsProps, 'entry'>) {
  const url = `${useSession().public_url.replace(/\/+$/, '')}${path}`;
  return (
    <div className="mb-6 rounded-lg border border-line bg-surface px-3 py-2">
      <p className="flex items-center gap-3">
        <MethodBadge method={method} />
        <code className="min-w-0 flex-1 font-mono text-xs wrap-anywhere">{url}</code>
        <CopyButton text={url} what="URL" />
      </p>
      <p className="mt-1 text-xs text-ink-3">Authentication: {access}</p>
    </div>
  );
}

function Parameters({ entry, schemas }: OperationDetailsProps) {
  return (['path', 'query'] as const).map((place) => {
    const those = entry.parameters.filter((parameter) => parameter.in === place);
    if (those.length === 0) return null;
    return (
      <OperationSection key={place} title={place === 'path' ? 'Path parameters' : 'Query parameters'}>
        <ul className="divide-y divide-line">
          {those.map(({ name, required = false, schema, description }) => {
            const shape = shapeOf(schema, schemas);
            return (
              <li key={name} className="py-2.5">
                <ShapeLine
                  name={name}
                  mark={required ? 'required' : null}
                  shape={{ ...shape, description: description ?? shape.description }}
                />
              </li>
            );
          })}
        </ul>
      </OperationSection>
    );
  });
}

const ADMIN_VARIABLE = '$SLUICE_ADMIN_KEY';

/** Code samples of an operation: inference in three languages, others in curl. */
function OperationExample({ entry, schemas, model, accountId }: OperationDetailsProps) {
  const { public_url: baseUrl } = useSession();
  const body = exampleBody(entry, schemas, { model, accountId });
  const samples = body && samplesAt(entry.path, { baseUrl, key: KEY_VARIABLE, request: body });
  if (samples) return <CodeTabs label="Example" samples={samples} />;
  if (entry.auth === 'session') {
    return (
      <p className="rounded-lg bg-sunken px-4 py-3 text-xs leading-5 text-ink-3">
        Requires a console session. API keys are not accepted.
      </p>
    );
  }
  const key = { key: KEY_VARIABLE, admin: ADMIN_VARIABLE, open: null }[entry.auth];
  const text = curl({
    method: entry.method,
    url: baseUrl.replace(/\/+$/, '') + exampleAddress(entry, model),
    key,
    ...(body !== null && { body }),
  });
  return <Code text={text} what="code" label="Example" language="bash" />;
}

function exampleAddress(entry: Entry, model: string): string {
  const [namespace = '', name = ''] = model.split('/');
  const required = entry.parameters.filter(({ in: place, required: must }) => place === 'query' && must);
  const given = Object.fromEntries(required.map(({ name: one }) => [one, '…']));
  return decodeURIComponent(
    addressOf(entry, entry.id === 'getModel' ? { ...given, namespace, name } : given),
  );
}

function OperationResponses({ entry, schemas }: Pick<OperationDetailsProps, 'entry' | 'schemas'>) {
  return (
    <OperationSection title="Responses">
      <ul className="divide-y divide-line">
        {entry.responses.map((response) => (
          <li key={response.status}>
            <OneStatus response={response} schemas={schemas} />
          </li>
        ))}
      </ul>
    </OperationSection>
  );
}

function OneStatus({ response, schemas }: { response: Response; schemas: Schemas }) {
  const { status, description } = response;
  // Descriptions of errors start each paragraph with a code.
  const codes = [...description.matchAll(/^`(\w+)`: /gm)].map(([, code = '']) => code);
  const label = (
    <>
      <Badge tone={status.startsWith('2') ? 'good' : 'neutral'}>
        <span className="font-mono">{status}</span>
      </Badge>
      <span className="min-w-0 leading-5 font-normal break-words text-ink-2">
        {codes.length > 0 ? (
          <span className="font-mono text-2xs">{codes.join(', ')}</span>
        ) : (
          <CodeText text={description} />
        )}
      </span>
    </>
  );
  return (
    <LazyDisclosure label={label} className="[&>summary]:flex [&>summary]:gap-2 [&>summary]:py-2.5">
      {() => (
        <div className="pb-3 pl-5.5">
          {codes.length > 0 ? (
            <Codes description={description} />
          ) : (
            <ResponseBody {...response} schemas={schemas} />
          )}
        </div>
      )}
    </LazyDisclosure>
  );
}

function Codes({ description }: { description: string }) {
  return (
    <ul className="space-y-1.5">
      {description.split('\n\n').map((line) => (
        <li key={line} className="text-xs leading-5 text-ink-2">
          <CodeText text={line} />
        </li>
      ))}
    </ul>
  );
}

function ResponseBody({ schema, events, schemas }: Response & { schemas: Schemas }) {
  if (schema === null) return <p className="text-xs text-ink-3">No body</p>;
  return (
    <>
      <SchemaFields schema={schema} schemas={schemas} marked="optional" />
      {events !== null && (
        <>
          <p className="mt-3 text-xs font-medium text-ink-2">Stream events</p>
          <SchemaFields schema={events} schemas={schemas} marked="optional" />
        </>
      )}
    </>
  );
}

function OperationSection({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h2 className="border-b border-line pb-1.5 text-sm font-semibold text-ink">{title}</h2>
      {children}
    </section>
  );
}
