import type { ApiError, ItemOf } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { FormError } from '../../components/form.tsx';
import { Notice } from '../../components/states.tsx';
import { bytes, counted } from '../../format/number.ts';

type Model = ItemOf<'listServedModels'>;

interface RefusalProps {
  error: ApiError | null;
  /** The served models, which could be unloaded. */
  models: readonly Model[];
  /** Called after a model was unloaded. */
  onFreed: () => void;
}

/**
 * Shows why a model was refused. If it needs too much memory, offers to unload those that the service does not unload
 * itself.
 */
export function Refusal({ error, models, onFreed }: RefusalProps) {
  const unload = useAction('unloadModel', {
    changes: ['listServedModels', 'listCatalog'],
    done: ({ id }) => `${id} was unloaded`,
  });
  if (error?.code !== 'not_enough_memory') return <FormError error={error} />;
  const loaded = models.filter(
    ({ state, keep, memory_bytes: memory }) => state === 'ready' && keep === true && memory !== null,
  );
  return (
    <Notice tone="bad" title="Not enough memory">
      <p className="wrap-anywhere">{error.message.replaceAll('`', '')}</p>
      {loaded.length > 0 && (
        <ul className="mt-3 space-y-2" aria-label="Loaded models">
          {loaded.map(({ id, memory_bytes: memory, in_flight: running }) => (
            <li key={id} className="flex flex-wrap items-center justify-between gap-x-3 gap-y-1 text-xs">
              <span className="min-w-0 wrap-anywhere">
                {id} uses {bytes(memory ?? 0)}
                {running > 0 && `; ${counted(running, 'request')} running`}
              </span>
              <Button
                size="small"
                aria-label={`Unload ${id}`}
                busy={unload.isPending && unload.variables?.body.model === id}
                onClick={() => unload.mutate({ body: { model: id } }, { onSuccess: onFreed })}
              >
                Unload
              </Button>
            </li>
          ))}
        </ul>
      )}
    </Notice>
  );
}
