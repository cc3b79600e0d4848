import { useState } from 'react';
import { act } from '../../api/act.ts';
import type { ApiError, ItemOf } from '../../api/client.ts';
import { Button } from '../../components/button.tsx';
import { FormError } from '../../components/form.tsx';
import { Notice } from '../../components/states.tsx';
import { bytes, counted } from '../../format/number.ts';

type Model = ItemOf<'listServedModels'>;

interface RefusalProps {
  error: ApiError | null;
  /** The served models, which could be unloaded. */
  models: readonly Model[];
}

/**
 * Shows why a model was refused. If it needs too much memory, offers to unload those that the service does not unload
 * itself.
 */
export function Refusal({ error, models }: RefusalProps) {
  /** The error after which a model was unloaded. */
  const [resolved, setResolved] = useState<ApiError | null>(null);
  const unload = async (id: string) => {
    await act('unloadModel', { body: { model: id } }, { done: `${id} was unloaded` });
    setResolved(error);
  };
  if (error === resolved) return null;
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
              <Button size="small" aria-label={`Unload ${id}`} onClick={() => unload(id)}>
                Unload
              </Button>
            </li>
          ))}
        </ul>
      )}
    </Notice>
  );
}
