import { Play } from 'lucide-react';
import type { ApiDocument } from '../../api/document.ts';
import { Button } from '../../components/button.tsx';
import { CopyButton } from '../../components/copy.tsx';
import { useSession } from '../../state/session.tsx';
import { MethodBadge } from './method-badge.tsx';
import { OperationExample } from './operation-example.tsx';
import type { Entry } from '../../api/operations.ts';
import { OperationResponses } from './operation-responses.tsx';
import { Part } from './part.tsx';
import { Line, SchemaFields } from './schema-fields.tsx';
import { shapeOf } from './schema.ts';

interface OperationDetailsProps {
  entry: Entry;
  schemas: ApiDocument['components']['schemas'];
  /** Model id for examples. */
  model: string;
  accountId: string;
  onTry: () => void;
}

/** An operation: URL, parameters, body, responses and code samples. */
export function OperationDetails(props: OperationDetailsProps) {
  const { entry, schemas, onTry } = props;
  return (
    <div className="@container min-w-0">
      <Address entry={entry} />
      <div className="grid gap-x-8 gap-y-6 @3xl:grid-cols-2">
        <div className="min-w-0 @3xl:order-last">
          <div className="space-y-3 @3xl:sticky @3xl:top-6">
            <OperationExample {...props} />
            <Button size="small" icon={<Play className="size-3.5" aria-hidden="true" />} onClick={onTry}>
              Try it
            </Button>
          </div>
        </div>
        <div className="min-w-0 space-y-8">
          <Parameters {...props} />
          {entry.body !== null && (
            <Part title="Request body">
              <SchemaFields schema={entry.body} schemas={schemas} marked="required" />
            </Part>
          )}
          <OperationResponses entry={entry} schemas={schemas} />
        </div>
      </div>
    </div>
  );
}

/** Method, full URL and authentication. */
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
      <Part key={place} title={place === 'path' ? 'Path parameters' : 'Query parameters'}>
        <ul className="divide-y divide-line">
          {those.map(({ name, required = false, schema, description }) => {
            const shape = shapeOf(schema, schemas);
            return (
              <li key={name} className="py-2.5">
                <Line
                  name={name}
                  mark={required ? 'required' : null}
                  shape={{ ...shape, description: description ?? shape.description }}
                />
              </li>
            );
          })}
        </ul>
      </Part>
    );
  });
}
