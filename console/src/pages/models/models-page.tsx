import { Boxes, Plus, SearchX } from 'lucide-react';
import { lazy, Suspense, useState, type ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Segmented } from '../../components/choices.tsx';
import { Page } from '../../components/page.tsx';
import { SearchField } from '../../components/search-field.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { EmptyState, Skeleton } from '../../components/states.tsx';
import { TextLink } from '../../components/link.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { openConnect } from '../../connect/open-connect.tsx';
import { useSession } from '../../state/session.tsx';
import { useOpening, useWasTrue } from '../../components/opening.ts';
import { ModelCard } from './model-card.tsx';
import { ModelsTable } from './models-table.tsx';

const AddModelDialog = lazy(() => import('./add-model-dialog.tsx'));
const ModelDialog = lazy(() => import('./model-dialog.tsx'));

type Model = ItemOf<'listServedModels'>;

/** Refetch intervals: while a model is loading or downloading, and otherwise. */
const CHANGING_MS = 1000;
const STABLE_MS = 5000;

/** More models than this are shown as a table unless the user chose cards, and cards then have a search field. */
const MANY = 8;

type Layout = 'cards' | 'table';

const LAYOUTS: readonly { value: Layout; label: string }[] = [
  { value: 'cards', label: 'Cards' },
  { value: 'table', label: 'Table' },
];

const layoutOf = (text: string | null): Layout | undefined =>
  LAYOUTS.find(({ value }) => value === text)?.value;

/** All models with prices and status. Operators can change them. */
export default function ModelsPage() {
  const { user } = useSession();
  const [query, change] = useQueryState();
  const [everyMs, setEveryMs] = useState(STABLE_MS);
  const read = useRead('listServedModels', undefined, { everyMs });
  const models = read.data?.data;
  const wanted = models?.some(isChanging) === true ? CHANGING_MS : STABLE_MS;
  if (wanted !== everyMs) setEveryMs(wanted);
  const search = query.get('q') ?? '';
  const layout = layoutOf(query.get('layout')) ?? ((models?.length ?? 0) > MANY ? 'table' : 'cards');
  // A single model has no table, and neither have no models.
  const isTable = layout === 'table' && (models?.length ?? 0) > 1;
  const managed = query.get('model');
  const adding = query.get('add');
  const wasManaged = useWasTrue(managed !== null);
  const opening = useOpening(managed);
  const searchField = (
    <SearchField
      label="Search models"
      className="w-full sm:w-64"
      value={search}
      onChange={(q) => change({ q }, { replace: true })}
    />
  );
  const add = user.operator && (
    <Button
      kind="primary"
      disabled={models === undefined}
      icon={<Plus className="size-4" aria-hidden="true" />}
      onClick={() => change({ add: '1' })}
    >
      Add model
    </Button>
  );
  return (
    <Page
      title="Models"
      hint="Available models, their prices and status"
      actions={
        models?.length !== 0 && (
          <>
            {!isTable && ((models?.length ?? 0) > MANY || search !== '') && searchField}
            {models !== undefined && models.length > 1 && (
              <Segmented<Layout>
                label="Layout"
                value={isTable ? 'table' : 'cards'}
                choices={LAYOUTS}
                onChange={(chosen) => change({ layout: chosen, sort: null }, { replace: true })}
              />
            )}
            {add}
          </>
        )
      }
    >
      <Loaded card query={read} loading={<Waiting />}>
        {({ data }) => (
          <ModelList
            models={data}
            atMs={read.dataUpdatedAt}
            isTable={isTable}
            searchField={searchField}
            add={add}
          />
        )}
      </Loaded>
      <Suspense>
        {user.operator && adding !== null && models !== undefined && (
          <AddModelDialog
            models={models}
            suggested={adding === '1' ? null : adding}
            onClose={() => change({ add: null }, { replace: true })}
            onAdded={(id) => change({ model: id, q: null })}
          />
        )}
        {wasManaged && (
          <ModelDialog
            key={opening}
            model={models?.find(({ id }) => id === managed) ?? null}
            models={models ?? []}
            atMs={read.dataUpdatedAt}
            onClose={() => change({ model: null, form: null })}
          />
        )}
      </Suspense>
    </Page>
  );
}

interface ModelListProps {
  models: readonly Model[];
  /** Time of the data, Unix milliseconds. */
  atMs: number;
  isTable: boolean;
  searchField: ReactNode;
  /** The button that adds a model; false: not an operator. */
  add: ReactNode;
}

/** The models that match the search in the URL. */
function ModelList({ models, atMs, isTable, searchField, add }: ModelListProps) {
  const { user } = useSession();
  const [query, change] = useQueryState();
  const search = query.get('q') ?? '';
  const shown = models.filter(({ id }) => id.toLowerCase().includes(search.trim().toLowerCase()));
  const none = shown.length === 0 && (
    <NoModels search={models.length === 0 ? '' : search} add={add} onClear={() => change({ q: null })} />
  );
  const onCode = ({ id }: Model) => openConnect({ model: id });
  const onOpen = ({ id }: Model) => change({ model: id });
  if (isTable) {
    return (
      <Card flush>
        <div className="flex flex-wrap items-center justify-between gap-2 border-b border-line p-3 sm:px-5">
          {searchField}
        </div>
        {none || <ModelsTable models={shown} isOperator={user.operator} {...{ onCode, onOpen }} />}
      </Card>
    );
  }
  if (none) return <Card>{none}</Card>;
  return (
    <ul className="grid gap-4 xl:grid-cols-2">
      {shown.map((model) => (
        <li key={model.id} className="flex min-w-0">
          <ModelCard
            model={model}
            models={models}
            atMs={atMs}
            onCode={() => onCode(model)}
            onOpen={() => onOpen(model)}
          />
        </li>
      ))}
    </ul>
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

interface NoModelsProps {
  search: string;
  /** The button that adds a model; false: not an operator. */
  add: ReactNode;
  onClear: () => void;
}

function NoModels({ search, add, onClear }: NoModelsProps) {
  return search === '' ? (
    <EmptyState icon={Boxes} title="No models" action={add || undefined}>
      {add ? (
        <>
          Add a model from the catalog, a file or another server. See{' '}
          <TextLink to="/docs/guide/models">Models</TextLink>.
        </>
      ) : (
        'An operator of this service can add models.'
      )}
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
