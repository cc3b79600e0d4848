import { ChevronRight } from 'lucide-react';
import { useState } from 'react';
import type { ApiDocument } from '../../api/document.ts';
import { Badge } from '../../components/badge.tsx';
import type { Entry, Response } from '../../api/operations.ts';
import { Part } from './part.tsx';
import { Prose } from './prose.tsx';
import { SchemaFields } from './schema-fields.tsx';

type Schemas = ApiDocument['components']['schemas'];

/** The responses of an operation by status, with collapsible schemas. */
export function OperationResponses({ entry, schemas }: { entry: Entry; schemas: Schemas }) {
  return (
    <Part title="Responses">
      <ul className="divide-y divide-line">
        {entry.responses.map((response) => (
          <li key={response.status}>
            <OneStatus response={response} schemas={schemas} />
          </li>
        ))}
      </ul>
    </Part>
  );
}

function OneStatus({ response, schemas }: { response: Response; schemas: Schemas }) {
  const { status, description } = response;
  const [open, setOpen] = useState(false);
  const good = status.startsWith('2');
  // Descriptions of errors start each paragraph with a code.
  const codes = [...description.matchAll(/^`(\w+)`: /gm)].map(([, code = '']) => code);
  return (
    <details className="group" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="flex list-none items-start gap-2 py-2.5 text-xs [&::-webkit-details-marker]:hidden">
        <ChevronRight
          className="mt-0.5 size-3.5 shrink-0 text-ink-3 transition-transform group-open:rotate-90"
          aria-hidden="true"
        />
        <Badge tone={good ? 'good' : 'neutral'}>
          <span className="font-mono">{status}</span>
        </Badge>
        <span className="min-w-0 leading-5 break-words text-ink-2">
          {codes.length > 0 ? (
            <span className="font-mono text-2xs">{codes.join(', ')}</span>
          ) : (
            <Prose text={description} />
          )}
        </span>
      </summary>
      {open && (
        <div className="pb-3 pl-5.5">
          {codes.length > 0 ? (
            <Codes description={description} />
          ) : (
            <ResponseBody {...response} schemas={schemas} />
          )}
        </div>
      )}
    </details>
  );
}

/** Error codes with their meaning. */
function Codes({ description }: { description: string }) {
  return (
    <ul className="space-y-1.5">
      {description.split('\n\n').map((line) => (
        <li key={line} className="text-xs leading-5 text-ink-2">
          <Prose text={line} />
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
