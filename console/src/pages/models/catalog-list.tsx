import { useState } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { SearchField } from '../../components/search-field.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { SkeletonRows } from '../../components/states.tsx';
import { outputLabel } from '../../format/modality.ts';
import { bytes, whole } from '../../format/number.ts';

export type CatalogModel = ItemOf<'listCatalog'>;

interface CatalogListProps {
  /** IDs of the served models. */
  served: ReadonlySet<string>;
  onChoose: (model: CatalogModel) => void;
}

/** The catalog, to choose a model from. */
export function CatalogList({ served, onChoose }: CatalogListProps) {
  const [search, setSearch] = useState('');
  const catalog = useRead('listCatalog', undefined);
  const wanted = search.trim().toLowerCase();
  return (
    <div className="space-y-3">
      <SearchField label="Search the catalog" value={search} onChange={setSearch} />
      <Loaded query={catalog} loading={<SkeletonRows rows={5} />}>
        {({ data, available_memory_bytes: available }) => {
          const shown = data.filter(({ id, summary }) => `${id} ${summary}`.toLowerCase().includes(wanted));
          return (
            <>
              <p role="status" className="min-h-4 text-xs text-ink-3 tabular-nums">
                {bytes(available)} of memory is available on the machine that runs the service.
                {shown.length === 0 && ' No matching models in the catalog.'}
              </p>
              <ul className="divide-y divide-line">
                {shown.map((model) => (
                  <li key={model.id}>
                    <button
                      type="button"
                      disabled={served.has(model.id)}
                      className="-mx-2 block w-[calc(100%+1rem)] rounded-lg px-2 py-3 text-left transition-colors hover:bg-hover disabled:pointer-events-none"
                      onClick={() => onChoose(model)}
                    >
                      <CatalogEntry model={model} isServed={served.has(model.id)} />
                    </button>
                  </li>
                ))}
              </ul>
            </>
          );
        }}
      </Loaded>
    </div>
  );
}

/** A model of the catalog, with what an operator needs to choose it. */
export function CatalogEntry({ model, isServed = false }: { model: CatalogModel; isServed?: boolean }) {
  const facts = [
    `${bytes(model.size_bytes)} file`,
    `uses ${bytes(model.memory_bytes)} of memory`,
    `${whole(model.context_length)} tokens of context`,
    model.quantization,
    model.license,
    ...(model.tools ? ['tools'] : []),
    ...(model.reasoning ? ['reasoning'] : []),
    ...[outputLabel(model)?.toLowerCase() ?? []].flat(),
  ];
  return (
    <>
      <span className="flex flex-wrap items-center justify-between gap-x-3 gap-y-1">
        <span className="text-sm font-medium wrap-anywhere text-ink">{model.id}</span>
        <Fit model={model} isServed={isServed} />
      </span>
      <span className="mt-0.5 block text-xs text-ink-2 first-letter:uppercase">{model.summary}</span>
      <span className="mt-1 flex flex-wrap gap-x-3 text-xs text-ink-3 tabular-nums">
        {facts.map((fact) => (
          <span key={fact}>{fact}</span>
        ))}
      </span>
    </>
  );
}

function Fit({ model, isServed }: { model: CatalogModel; isServed: boolean }) {
  if (isServed) return <Badge>Already added</Badge>;
  if (!model.fits) return <Badge tone="warn">Not enough memory</Badge>;
  return <Badge tone="good">{model.downloaded ? 'Downloaded' : 'Fits'}</Badge>;
}
