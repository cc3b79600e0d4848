import { Code2, Ellipsis, Settings2, SquareTerminal } from 'lucide-react';
import type { ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { Badge } from '../../components/badge.tsx';
import { IconButton } from '../../components/button.tsx';
import { Link } from '../../components/link.tsx';
import { Menu, MenuItem } from '../../components/menu.tsx';
import { ModelName } from '../../components/model-name.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { Table, type Column } from '../../components/table.tsx';
import { capabilityText, generatesText, modalityText, outputLabel } from '../../format/modality.ts';
import { exactMoneyColumn } from '../../format/money.ts';
import { bytes, whole } from '../../format/number.ts';
import { playgroundWith, unusable } from './playground-link.ts';

type Model = ItemOf<'listServedModels'>;

interface ModelsTableProps {
  models: readonly Model[];
  onCode: (model: Model) => void;
  /** Opens the details. */
  onOpen: (model: Model) => void;
  isOperator: boolean;
}

/** The table of models. */
export function ModelsTable(props: ModelsTableProps) {
  return (
    <>
      <Table
        label="Models"
        id="models"
        sortable
        columns={modelColumns(props)}
        rows={props.models}
        keyOf={({ id }) => id}
        onOpen={props.onOpen}
      />
      <p className="border-t border-line px-4 py-4 text-xs text-ink-3 sm:px-5">
        Prices are in USD per million tokens.
      </p>
    </>
  );
}

function modelColumns(props: ModelsTableProps): Column<Model>[] {
  const { models, onOpen, isOperator } = props;
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
        <span className="flex text-xs">
          <StateBadge status={model} />
        </span>
      ),
    },
    text({ name: 'modality', heading: 'Modality', from: 'chosen' }, ({ modality }) => modality),
    text({ name: 'capabilities', heading: 'Capabilities', from: 'chosen' }, capabilityText),
    text({ name: 'quantization', heading: 'Quantization', from: 'xl' }, ({ quantization }) => quantization),
    number({ name: 'context', heading: 'Context', from: 'md' }, ({ context_length: tokens }) => tokens),
    number(
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
    number({ name: 'running', heading: 'In flight', from: 'xl' }, ({ in_flight: running }) => running),
    number({ name: 'waiting', heading: 'Waiting', from: 'chosen' }, ({ waiting }) => waiting),
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
      cell: (model) => <Actions model={model} {...props} />,
    },
  ];
}

/** Formats what is special about a model in a list of chat models. */
const specialText = (model: Model): string | null => outputLabel(model) ?? modalityText(model);

const NONE = <span className="text-ink-3">—</span>;

type Naming = Pick<Column<Model>, 'name' | 'heading' | 'from'>;

/** A column of texts; null or empty: unknown, or none. */
function text(column: Naming, value: (model: Model) => string | null): Column<Model> {
  return { ...column, value, cell: (model) => value(model) || NONE };
}

/** A column of numbers; null: unknown. */
function number(
  column: Naming,
  value: (model: Model) => number | null,
  write: (value: number) => ReactNode = whole,
): Column<Model> {
  const cell = (model: Model) => {
    const known = value(model);
    return known === null ? NONE : write(known);
  };
  return { ...column, numeric: true, value, cell };
}

/** A column of prices in USD per million tokens. `read`: null, if the model has no such price. */
function price(
  models: readonly Model[],
  column: Naming,
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
  number({ name: 'memory', heading: 'Memory', from: 'xl' }, ({ memory_bytes: size }) => size, bytes),
  number({ name: 'file', heading: 'File', from: 'chosen' }, ({ size_bytes: size }) => size, bytes),
  text({ name: 'license', heading: 'License', from: 'chosen' }, ({ license }) => license),
];

function Actions({ model, onCode, onOpen, isOperator }: { model: Model } & Omit<ModelsTableProps, 'models'>) {
  return (
    <Menu
      trigger={
        <IconButton label={`Actions for ${model.id}`}>
          <Ellipsis className="size-4" aria-hidden="true" />
        </IconButton>
      }
    >
      <MenuItem icon={<Settings2 />} onClick={() => onOpen(model)}>
        {isOperator ? 'Manage' : 'Details'}
      </MenuItem>
      {!model.invalid && (
        <>
          <MenuItem icon={<Code2 />} onClick={() => onCode(model)}>
            Connect
          </MenuItem>
          <TryInPlayground model={model} />
        </>
      )}
    </Menu>
  );
}

function TryInPlayground({ model }: { model: Model }) {
  const why = unusable(model);
  if (why === null) {
    return (
      <MenuItem icon={<SquareTerminal />} render={<Link to={playgroundWith(model)} />}>
        Try in playground
      </MenuItem>
    );
  }
  return (
    <MenuItem icon={<SquareTerminal />} disabled>
      Try in playground: {why.toLowerCase()}
    </MenuItem>
  );
}
