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
import { engineColumns, keyOfEngine, type Engine } from './engine-columns.tsx';
import { EngineDialog } from './engine-dialog.tsx';
import { Live } from './live.tsx';

const EVERY_MS = 2000;

/** Live status and load of every replica. */
export default function EnginesPage() {
  const engines = useRead('listEngines', undefined, { everyMs: EVERY_MS });
  const [query, change] = useQueryState();
  const open = query.get('engine');
  const opening = useOpening(open);
  const show = (engine: Engine) => change({ engine: keyOfEngine(engine) });
  return (
    <Page wide title="Engines" hint="Status and load of every replica" actions={<Live query={engines} />}>
      <Card flush>
        <Loaded
          query={engines}
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
              columns={engineColumns(show)}
              rows={data}
              keyOf={keyOfEngine}
              onOpen={show}
              isOpen={(engine) => keyOfEngine(engine) === open}
            />
          )}
        </Loaded>
      </Card>
      <EngineDialog
        key={opening}
        engine={engines.data?.data.find((engine) => keyOfEngine(engine) === open) ?? null}
        onClose={() => change({ engine: null })}
      />
    </Page>
  );
}
