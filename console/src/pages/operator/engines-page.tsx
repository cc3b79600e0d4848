import { Cpu } from 'lucide-react';
import { useRead } from '../../api/queries.ts';
import { Card } from '../../components/card.tsx';
import { Page } from '../../components/page.tsx';
import { EmptyState, ErrorState, SkeletonRows } from '../../components/states.tsx';
import { Table } from '../../components/table.tsx';
import { TextLink } from '../../shell/link.tsx';
import { useQueryState } from '../../shell/query.ts';
import { engineColumns, keyOfEngine, type Engine } from './engine-columns.tsx';
import { EngineDialog } from './engine-dialog.tsx';
import { Live } from './live.tsx';

const EVERY_MS = 2000;

/** Live status and load of every replica. */
export default function EnginesPage() {
  const engines = useRead('listEngines', undefined, { everyMs: EVERY_MS });
  const [query, change] = useQueryState();
  const open = query.get('engine');
  const show = (engine: Engine) => change({ engine: keyOfEngine(engine) });
  const items = engines.data?.data;
  return (
    <Page wide title="Engines" hint="Status and load of every replica" actions={<Live query={engines} />}>
      <Card flush>
        {items === undefined ? (
          engines.error === null ? (
            <SkeletonRows />
          ) : (
            <ErrorState error={engines.error} retry={() => void engines.refetch()} />
          )
        ) : items.length === 0 ? (
          <EmptyState icon={Cpu} title="No models">
            Add a model or a server on the <TextLink to="/models">Models</TextLink> page. See also{' '}
            <TextLink to="/docs/guide/replicas">Replicas</TextLink>.
          </EmptyState>
        ) : (
          <Table
            label="Engines"
            columns={engineColumns(show)}
            rows={items}
            keyOf={keyOfEngine}
            onOpen={show}
            isOpen={(engine) => keyOfEngine(engine) === open}
          />
        )}
      </Card>
      <EngineDialog
        engine={items?.find((engine) => keyOfEngine(engine) === open) ?? null}
        onClose={() => change({ engine: null })}
      />
    </Page>
  );
}
