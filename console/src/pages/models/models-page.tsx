import { Boxes, SearchX } from 'lucide-react';
import { useState } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Page } from '../../components/page.tsx';
import { SearchField } from '../../components/search-field.tsx';
import { EmptyState, ErrorState, Skeleton } from '../../components/states.tsx';
import { useQueryState } from '../../shell/query.ts';
import { ModelCard } from './model-card.tsx';
import { ModelCode } from './model-code.tsx';

type Model = ItemOf<'listServedModels'>;

/** Refetch intervals: while a model is loading or downloading, and otherwise. */
const CHANGING_MS = 1000;
const STABLE_MS = 5000;

/** The search field is shown for more models than this. */
const MANY = 8;

/** All models with prices and status. */
export default function ModelsPage() {
  const [query, change] = useQueryState();
  const [everyMs, setEveryMs] = useState(STABLE_MS);
  const read = useRead('listServedModels', undefined, { everyMs });
  const models = read.data?.data;
  const wanted = models?.some(isChanging) === true ? CHANGING_MS : STABLE_MS;
  if (wanted !== everyMs) setEveryMs(wanted);
  const search = query.get('q') ?? '';
  const shown = models?.filter(({ id }) => id.toLowerCase().includes(search.trim().toLowerCase()));
  const named = query.get('code');
  return (
    <Page
      title="Models"
      hint="Available models, their prices and status"
      actions={
        models !== undefined &&
        (models.length > MANY || search !== '') && (
          <SearchField
            label="Search models"
            className="w-full sm:w-64"
            value={search}
            onChange={(q) => change({ q }, { replace: true })}
          />
        )
      }
    >
      {shown === undefined ? (
        read.error === null ? (
          <Waiting />
        ) : (
          <Card>
            <ErrorState error={read.error} retry={() => void read.refetch()} />
          </Card>
        )
      ) : shown.length === 0 ? (
        <Card>
          <NoModels search={search} onClear={() => change({ q: null })} />
        </Card>
      ) : (
        <ul className="grid gap-4 xl:grid-cols-2">
          {shown.map((model) => (
            <li key={model.id} className="flex min-w-0">
              <ModelCard model={model} atMs={read.dataUpdatedAt} onCode={() => change({ code: model.id })} />
            </li>
          ))}
        </ul>
      )}
      <ModelCode
        model={models?.find(({ id }) => id === named) ?? null}
        onClose={() => change({ code: null })}
      />
    </Page>
  );
}

function isChanging({ state, retry_in_ms: retry }: Model): boolean {
  return state === 'loading' || state === 'downloading' || (state === 'down' && retry !== null);
}

function Waiting() {
  return (
    <div role="status" className="grid gap-4 xl:grid-cols-2">
      <span className="sr-only">Loading</span>
      {Array.from({ length: 4 }, (_, index) => (
        <Skeleton key={index} className="h-56 rounded-xl" />
      ))}
    </div>
  );
}

function NoModels({ search, onClear }: { search: string; onClear: () => void }) {
  return search === '' ? (
    <EmptyState
      icon={Boxes}
      title="No models configured"
      action={<ButtonLink to="/docs/guide/models">Read how to add models</ButtonLink>}
    >
      An operator can add models to the configuration file and restart the service.
    </EmptyState>
  ) : (
    <EmptyState
      icon={SearchX}
      title="No matching models"
      action={<Button onClick={onClear}>Clear search</Button>}
    >
      No model ID contains “{search}”.
    </EmptyState>
  );
}
