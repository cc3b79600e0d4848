import { ChartColumn, Table2 } from 'lucide-react';
import { lazy, Suspense, useState } from 'react';
import type { QueryState } from '../../api/queries.ts';
import { ChartTable } from '../../charts/chart-table.tsx';
import type { Series } from '../../charts/series.ts';
import { IconButton } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Skeleton } from '../../components/states.tsx';
import { utcSpan, utcTick } from '../../format/time.ts';
import type { ChartDefinition } from './chart-definitions.ts';

// The chart library is a third of the page's script, so it loads in parallel with the data.
const Chart = lazy(() => import('../../charts/chart.tsx'));

interface ChartCardProps {
  definition: ChartDefinition;
  times: readonly number[];
  unit: 'hour' | 'day';
  /** Index of the hour or day that has not ended yet. */
  partial: number | undefined;
  /** Whether usage is grouped. */
  ofParts: boolean;
  series: QueryState<readonly Series[]>;
  /** Returns the path of the page that lists the requests of an hour or day. */
  linkOf: (index: number) => string;
  onOpen: (index: number) => void;
  className?: string;
}

const HEIGHT = 220;

/** A chart that can also be shown as a table. Each hour or day links to its requests. */
export function ChartCard({
  definition,
  times,
  unit,
  partial,
  ofParts,
  series,
  linkOf,
  onOpen,
  className,
}: ChartCardProps) {
  const [asTable, setAsTable] = useState(false);
  const { title, hint, hintOfParts } = definition;
  const label = `${title} by ${unit}`;
  const data = { label, times, partial, unit: definition.unit, formatTime: utcSpan(unit) };
  return (
    <Card
      title={title}
      hint={(ofParts ? hintOfParts : undefined) ?? hint}
      className={className ?? ''}
      actions={
        <IconButton
          label={asTable ? `Show ${title} as chart` : `Show ${title} as table`}
          onClick={() => setAsTable(!asTable)}
        >
          {asTable ? (
            <ChartColumn className="size-4" aria-hidden="true" />
          ) : (
            <Table2 className="size-4" aria-hidden="true" />
          )}
        </IconButton>
      }
    >
      <Loaded query={series} loading={<Waiting />}>
        {(loaded) =>
          asTable ? (
            <div
              role="region"
              aria-label={label}
              tabIndex={0}
              className="overflow-auto"
              style={{ height: HEIGHT + 28 }}
            >
              <ChartTable {...data} series={loaded} linkOf={linkOf} />
            </div>
          ) : (
            <Suspense fallback={<Waiting />}>
              <Chart {...data} series={loaded} onOpen={onOpen} formatTick={utcTick(unit)} height={HEIGHT} />
            </Suspense>
          )
        }
      </Loaded>
    </Card>
  );
}

/** A placeholder with the height of a chart and its legend. */
function Waiting() {
  return (
    <div role="status" style={{ height: HEIGHT + 28 }}>
      <span className="sr-only">Loading</span>
      <Skeleton className="h-full w-full" />
    </div>
  );
}
