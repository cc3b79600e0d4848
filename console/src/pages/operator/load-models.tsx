import { Boxes } from 'lucide-react';
import type { ItemOf } from '../../api/client.ts';
import { useList } from '../../api/queries.ts';
import { Card } from '../../components/card.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { EmptyState, SkeletonRows } from '../../components/states.tsx';
import { Table, type Column } from '../../components/table.tsx';
import { whole } from '../../format/number.ts';
import { TextLink } from '../../components/link.tsx';
import { EngineStatus } from '../../components/engine-status.tsx';

type Model = ItemOf<'listServedModels'>;

const COLUMNS: readonly Column<Model>[] = [
  {
    name: 'model',
    heading: 'Model',
    grow: true,
    cell: (model) => (
      <>
        <span className="block truncate font-medium" title={model.id}>
          {model.id}
        </span>
        <span className="block text-xs sm:hidden">
          <EngineStatus engine={model} />
        </span>
      </>
    ),
  },
  { name: 'state', heading: 'State', from: 'sm', cell: (model) => <EngineStatus engine={model} /> },
  {
    name: 'replicas',
    heading: 'Replicas ready',
    numeric: true,
    from: 'md',
    cell: ({ replicas, replicas_ready: ready }) => `${ready} of ${replicas}`,
  },
  {
    name: 'in-flight',
    heading: 'In flight',
    numeric: true,
    cell: ({ in_flight: inFlight }) => whole(inFlight),
  },
  { name: 'waiting', heading: 'Waiting', numeric: true, cell: ({ waiting }) => whole(waiting) },
];

/** Current load of each model. */
export function LoadModels({ everyMs }: { everyMs: number }) {
  const models = useList('listServedModels', undefined, { everyMs });
  return (
    <Card
      title="Models"
      hint={
        <>
          Requests running on replicas, and requests waiting until a replica has room. See{' '}
          <TextLink to="/operator/engines">Engines</TextLink> for each replica.
        </>
      }
      flush
    >
      <Loaded
        query={models}
        loading={<SkeletonRows rows={3} />}
        empty={
          <EmptyState icon={Boxes} title="No models configured">
            Add a model on the <TextLink to="/models">Models</TextLink> page.
          </EmptyState>
        }
      >
        {(loaded) => <Table label="Models" columns={COLUMNS} rows={loaded} keyOf={({ id }) => id} />}
      </Loaded>
    </Card>
  );
}
