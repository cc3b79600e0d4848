import { Hash, Play } from 'lucide-react';
import { memo } from 'react';
import type { ApiDocument } from '../../api/document.ts';
import { Button } from '../../components/button.tsx';
import { MethodBadge } from './method-badge.tsx';
import { OperationExample } from './operation-example.tsx';
import type { Entry } from './operations.ts';
import { OperationResponses } from './operation-responses.tsx';
import { Part } from './part.tsx';
import { Prose } from './prose.tsx';
import { Line, SchemaFields } from './schema-fields.tsx';
import { shapeOf } from './schema.ts';

interface OperationSectionProps {
  entry: Entry;
  schemas: ApiDocument['components']['schemas'];
  /** Model id for examples. */
  model: string;
  accountId: string;
  onTry: (id: string) => void;
}

/** An operation: summary, parameters, body, responses and code samples. */
export const OperationSection = memo(function OperationSection(props: OperationSectionProps) {
  const { entry, schemas, onTry } = props;
  return (
    <section
      id={entry.id}
      aria-labelledby={`${entry.id}-heading`}
      className="@container scroll-mt-20 border-t border-line py-8 first:border-0 first:pt-0 lg:scroll-mt-4"
    >
      <div className="grid gap-x-8 gap-y-6 @3xl:grid-cols-2">
        <div className="min-w-0">
          <Heading entry={entry} />
          <Parameters {...props} />
          {entry.body !== null && (
            <Part title="Request body">
              <SchemaFields schema={entry.body} schemas={schemas} marked="required" />
            </Part>
          )}
          <OperationResponses entry={entry} schemas={schemas} />
        </div>
        <div className="min-w-0">
          <div className="space-y-3 @3xl:sticky @3xl:top-6">
            <OperationExample {...props} />
            <Button
              size="small"
              icon={<Play className="size-3.5" aria-hidden="true" />}
              aria-label={`Try it: ${entry.id}`}
              onClick={() => onTry(entry.id)}
            >
              Try it
            </Button>
          </div>
        </div>
      </div>
    </section>
  );
});

function Heading({ entry: { id, method, path, summary, access } }: { entry: Entry }) {
  return (
    <header>
      <h3
        id={`${id}-heading`}
        className="group flex flex-wrap items-center gap-2 text-base font-semibold tracking-tight"
      >
        <code className="font-sans break-all">{id}</code>
        <a
          href={`#${id}`}
          aria-label={`Link to ${id}`}
          className="inline-flex size-6 items-center justify-center rounded text-ink-3 opacity-0 transition-opacity group-hover:opacity-100 hover:bg-hover focus-visible:opacity-100"
        >
          <Hash className="size-3.5" aria-hidden="true" />
        </a>
      </h3>
      <p className="mt-2 flex flex-wrap items-center gap-2">
        <MethodBadge method={method} />
        <code className="font-mono text-xs break-all text-ink-2">{path}</code>
      </p>
      <p className="mt-3 text-sm text-ink-2">
        <Prose text={summary} />
      </p>
      <p className="mt-1 text-xs text-ink-3">Authentication: {access}</p>
    </header>
  );
}

function Parameters({ entry, schemas }: OperationSectionProps) {
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
