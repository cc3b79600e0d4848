import { Boxes, Code2, Plus, SearchX, Settings2, SquareTerminal } from 'lucide-react';
import { lazy, Suspense, useState, type ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Link, TextLink } from '../../components/link.tsx';
import { MenuItem, RowMenu } from '../../components/menu.tsx';
import { ModelName } from '../../components/model-name.tsx';
import { useOpening, useWasTrue } from '../../components/opening.ts';
import { Page } from '../../components/page.tsx';
import { UrlSearchField } from '../../components/search-field.tsx';
import { StateBadge, StateCell } from '../../components/state-badge.tsx';
import { EmptyState, Loaded } from '../../components/states.tsx';
import { numberColumn, Table, textColumn, type Column } from '../../components/table.tsx';
import { openConnect } from '../../connect/open-connect.tsx';
import { capabilityText, generatesText, modalityText, outputLabel } from '../../format/modality.ts';
import { exactMoneyColumn } from '../../format/money.ts';
import { bytes, whole } from '../../format/number.ts';
import { useSession } from '../../state/session.tsx';
import { useQueryState } from '../../state/url-query.ts';

const AddModelDialog = lazy(() => import('./add-model-dialog.tsx'));
const ModelDialog = lazy(() => import('./model-dialog.tsx'));

type Model = ItemOf<'listServedModels'>;

/** Refetch intervals: while a model is loading or downloading, and otherwise. */
const CHANGING_MS = 1000;
const STABLE_MS = 5000;

export default function ModelsPage() {
  const { user } = useSession();
  const [query, change] = useQueryState();
  const [everyMs, setEveryMs] = useState(STABLE_MS);
  const read = useRead('listServedModels', undefined, { everyMs });
  const models = read.data?.data;
  const wanted = models?.some(isChanging) === true ? CHANGING_MS : STABLE_MS;
  if (wanted !== everyMs) setEveryMs(wanted);
  const managed = query.get('model');
  const adding = query.get('add');
  const wasManaged = useWasTrue(managed !== null);
  const opening = useOpening(managed);
  const add = user.operator && (
    <Button
      kind="primary"
      disabled={models === undefined}
      icon={<Plus />}
      onClick={() => change({ add: '1' })}
    >
      Add model
    </Button>
  );
  return (
    <Page
      title="Models"
      hint="Available models, their prices and status"
      actions={models?.length !== 0 && add}
    >
      <Loaded card query={read} empty={<Card>{noModels(add)}</Card>}>
        {({ data }) => <ModelsTable models={data} />}
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

function isChanging({ state, retry_in_ms: retry }: Model): boolean {
  return state === 'loading' || state === 'downloading' || (state === 'down' && retry !== null);
}

/** `add`: the button that adds a model; false: not an operator. */
const noModels = (add: ReactNode) => (
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
);

function ModelsTable({ models }: { models: readonly Model[] }) {
  const { user } = useSession();
  const [query, change] = useQueryState();
  const search = query.get('q') ?? '';
  const shown = models.filter(({ id }) => id.toLowerCase().includes(search.trim().toLowerCase()));
  const onOpen = ({ id }: Model) => change({ model: id });
  return (
    <Card flush>
      {(models.length > 1 || search !== '') && (
        <div className="border-b border-line p-3 sm:px-5">
          <UrlSearchField label="Search models" />
        </div>
      )}
      {shown.length === 0 ? (
        <EmptyState
          icon={SearchX}
          title="No matching models"
          action={<Button onClick={() => change({ q: null })}>Clear search</Button>}
        >
          No model ID contains “{search}”.
        </EmptyState>
      ) : (
        <>
          <Table
            label="Models"
            id="models"
            sortable
            columns={modelColumns(models, user.operator, onOpen)}
            rows={shown}
            keyOf={({ id }) => id}
            onOpen={onOpen}
          />
          <p className="border-t border-line px-4 py-4 text-xs text-ink-3 sm:px-5">
            Prices are in USD per million tokens.
          </p>
        </>
      )}
    </Card>
  );
}

function modelColumns(
  models: readonly Model[],
  isOperator: boolean,
  onOpen: (model: Model) => void,
): Column<Model>[] {
  const hasDefault = models.length > 1;
  return [
    {
      name: 'model',
      heading: 'Model',
      value: ({ id }) => id,
      grow: true,
      cell: (model) => (
        <>
          <span className="flex items-center gap-2">
            <button
              type="button"
              onClick={() => onOpen(model)}
              className="min-w-0 rounded-sm text-left font-medium hover:underline"
            >
              <ModelName id={model.id} />
            </button>
            {model.is_default && hasDefault && <Badge tone="accent">Default</Badge>}
          </span>
          <span className="flex text-xs sm:hidden">
            <StateBadge status={model} />
          </span>
          <span className="block truncate text-2xs text-ink-3 max-sm:hidden">{specialText(model)}</span>
        </>
      ),
    },
    {
      name: 'state',
      heading: 'State',
      value: ({ state }) => state,
      from: 'sm',
      cell: (model) => (
        <span className="block text-xs">
          <StateCell status={model} />
        </span>
      ),
    },
    textColumn({ name: 'modality', heading: 'Modality', from: 'chosen' }, ({ modality }) => modality),
    textColumn({ name: 'capabilities', heading: 'Capabilities', from: 'chosen' }, capabilityText),
    textColumn(
      { name: 'quantization', heading: 'Quantization', from: 'chosen' },
      ({ quantization }) => quantization,
    ),
    numberColumn({ name: 'context', heading: 'Context', from: 'md' }, ({ context_length: tokens }) => tokens),
    numberColumn(
      { name: 'max-completion', heading: 'Max completion', from: 'chosen' },
      ({ max_completion_tokens: tokens }) => tokens,
    ),
    price(models, { name: 'prompt', heading: 'Prompt', from: 'md' }, ({ pricing }) => pricing.prompt),
    price(
      models,
      { name: 'cached', heading: 'Prompt (cached)', from: 'chosen' },
      ({ pricing }) => pricing.input_cache_read ?? pricing.prompt,
    ),
    price(models, { name: 'completion', heading: 'Completion', from: 'md' }, (model) =>
      generatesText(model) ? model.pricing.completion : null,
    ),
    ...(isOperator ? OPERATOR_COLUMNS : []),
    numberColumn({ name: 'running', heading: 'In flight', from: 'xl' }, ({ in_flight: running }) => running),
    numberColumn({ name: 'waiting', heading: 'Waiting', from: 'xl' }, ({ waiting }) => waiting),
    {
      name: 'replicas',
      heading: 'Replicas ready',
      value: ({ replicas_ready: ready }) => ready,
      numeric: true,
      from: 'chosen',
      cell: ({ replicas, replicas_ready: ready }) => `${whole(ready)} of ${whole(replicas)}`,
    },
    {
      name: 'actions',
      heading: 'Actions',
      isControl: true,
      cell: (model) => <Actions {...{ model, isOperator, onOpen }} />,
    },
  ];
}

/** Formats what is special about a model in a list of chat models. */
const specialText = (model: Model): string | null => outputLabel(model) ?? modalityText(model);

const NONE = <span className="text-ink-3">—</span>;

/** A column of prices in USD per million tokens. `read`: null, if the model has no such price. */
function price(
  models: readonly Model[],
  column: Pick<Column<Model>, 'name' | 'heading' | 'from'>,
  read: (model: Model) => string | null,
): Column<Model> {
  const usdOf = (model: Model) => (model.invalid ? null : read(model));
  const amount = exactMoneyColumn(models.flatMap((model) => usdOf(model) ?? []));
  const cell = (model: Model) => {
    const usd = usdOf(model);
    if (usd === null) return NONE;
    return /[1-9]/.test(usd) ? amount(usd) : 'Free';
  };
  return { ...column, numeric: true, value: usdOf, cell };
}

/** Columns whose values only operators get. */
const OPERATOR_COLUMNS: readonly Column<Model>[] = [
  numberColumn({ name: 'memory', heading: 'Memory', from: 'xl' }, ({ memory_bytes: size }) => size, bytes),
  numberColumn({ name: 'file', heading: 'File', from: 'chosen' }, ({ size_bytes: size }) => size, bytes),
  textColumn({ name: 'license', heading: 'License', from: 'chosen' }, ({ license }) => license),
];

interface ActionsProps {
  model: Model;
  isOperator: boolean;
  onOpen: (model: Model) => void;
}

function Actions({ model, isOperator, onOpen }: ActionsProps) {
  const why = unusable(model);
  return (
    <RowMenu label={`Actions for ${model.id}`}>
      <MenuItem icon={<Settings2 />} onClick={() => onOpen(model)}>
        {isOperator ? 'Manage' : 'Details'}
      </MenuItem>
      {!model.invalid && (
        <>
          <MenuItem icon={<Code2 />} onClick={() => openConnect({ model: model.id })}>
            Connect
          </MenuItem>
          {why === null ? (
            <MenuItem
              icon={<SquareTerminal />}
              render={<Link to={`/playground?model=${encodeURIComponent(model.id)}`} />}
            >
              Try in playground
            </MenuItem>
          ) : (
            <MenuItem icon={<SquareTerminal />} disabled>
              Try in playground: {why}
            </MenuItem>
          )}
        </>
      )}
    </RowMenu>
  );
}

/** Returns why the playground cannot use a model; null: it can. */
function unusable({ modality, state }: Model): string | null {
  if (outputLabel({ modality }) === 'Rerank') return 'the model is a reranker';
  if (state === 'down') return 'the model is down';
  return state === 'unloaded' ? 'the model is not loaded' : null;
}
