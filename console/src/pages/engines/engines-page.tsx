import { Cpu } from 'lucide-react';
import { useRead } from '../../api/queries.ts';
import { Card } from '../../components/card.tsx';
import { useOpening } from '../../components/opening.ts';
import { Page } from '../../components/page.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { EmptyState } from '../../components/states.tsx';
import { Table } from '../../components/table.tsx';
import { TextLink } from '../../components/link.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { replicaColumns, keyOfReplica, type Replica } from './replica-columns.tsx';
import { ReplicaDialog } from './replica-dialog.tsx';
import { Live } from '../../components/live.tsx';

const EVERY_MS = 2000;

/** Live status and load of every replica. */
export default function EnginesPage() {
  const replicas = useRead('listEngines', undefined, { everyMs: EVERY_MS });
  const [query, change] = useQueryState();
  const open = query.get('engine');
  const opening = useOpening(open);
  const show = (replica: Replica) => change({ engine: keyOfReplica(replica) });
  return (
    <Page wide title="Engines" hint="Status and load of every replica" actions={<Live query={replicas} />}>
      <Card flush>
        <Loaded
          query={replicas}
          empty={
            <EmptyState icon={Cpu} title="No models">
              Add a model or a server on the <TextLink to="/models">Models</TextLink> page. See also{' '}
              <TextLink to="/docs/guide/replicas">Replicas</TextLink>.
            </EmptyState>
          }
        >
          {({ data }) => (
            <Table
              label="Engines"
              id="engines"
              sortable
              columns={replicaColumns(show)}
              rows={data}
              keyOf={keyOfReplica}
              onOpen={show}
              isOpen={(replica) => keyOfReplica(replica) === open}
            />
          )}
        </Loaded>
      </Card>
      <ReplicaDialog
        key={opening}
        replica={replicas.data?.data.find((replica) => keyOfReplica(replica) === open) ?? null}
        onClose={() => change({ engine: null })}
      />
    </Page>
  );
}
