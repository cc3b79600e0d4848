import { Boxes } from 'lucide-react';
import type { ItemOf, ResponseOf } from '../../api/client.ts';
import type { QueryState } from '../../api/queries.ts';
import { StateBadge } from '../../components/state-badge.tsx';
import { ModelName } from '../../components/model-name.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { EmptyState, SkeletonRows } from '../../components/states.tsx';
import { returnsEmbeddings } from '../../format/modality.ts';
import { whole } from '../../format/number.ts';
import { Link } from '../../components/link.tsx';

interface ModelsProps {
  models: QueryState<ResponseOf<'listServedModels'>>;
}

/** Number of models shown. */
const SHOWN = 8;

/** The first models with their status and current requests. */
export function Models({ models }: ModelsProps) {
  return (
    <Loaded
      query={models}
      loading={<SkeletonRows rows={3} />}
      empty={
        <EmptyState icon={Boxes} title="No models">
          An operator can add models on the Models page.
        </EmptyState>
      }
    >
      {({ data }) => <ModelList models={data} />}
    </Loaded>
  );
}

function ModelList({ models }: { models: readonly ItemOf<'listServedModels'>[] }) {
  return (
    <ul className="divide-y divide-line">
      {models.slice(0, SHOWN).map((model) => (
        <li key={model.id} className="flex items-center justify-between gap-4 px-4 py-3 text-sm sm:px-5">
          <span className="min-w-0">
            <Link
              to={`/models?q=${encodeURIComponent(model.id)}`}
              aria-label={model.id}
              className="block font-medium underline-offset-2 hover:underline"
            >
              <ModelName short id={model.id} />
            </Link>
            <span className="block text-xs text-ink-3 tabular-nums">
              {returnsEmbeddings(model) && 'Embeddings · '}
              {whole(model.in_flight)} in flight, {whole(model.waiting)} waiting
            </span>
          </span>
          <span className="shrink-0 text-xs">
            <StateBadge status={model} />
          </span>
        </li>
      ))}
    </ul>
  );
}
