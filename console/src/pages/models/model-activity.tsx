import { Download, RotateCw, X } from 'lucide-react';
import { act } from '../../api/act.ts';
import type { ItemOf } from '../../api/client.ts';
import { Button } from '../../components/button.tsx';
import { useSubmit } from '../../components/form.tsx';
import { Notice } from '../../components/states.tsx';
import { useSession } from '../../state/session.tsx';
import { Refusal } from './memory-refusal.tsx';
import { ModelProgress } from './model-progress.tsx';

type Model = ItemOf<'listServedModels'>;

interface ModelActivityProps {
  model: Model;
  /** The served models. */
  models: readonly Model[];
  /** Time of the data, Unix milliseconds. */
  atMs: number;
}

/** Shows why a model is not ready. Operators can cancel its download, or load the model. */
export function ModelActivity({ model, models, atMs }: ModelActivityProps) {
  const { user } = useSession();
  if (model.state === 'ready') return null;
  const controls = user.operator && model.embedded;
  return (
    <div className="space-y-3">
      <ModelProgress model={model} atMs={atMs} action={controls && <CancelDownload id={model.id} />} />
      {model.state === 'unloaded' && (
        <Notice>
          {model.downloaded === false ? 'The file is not downloaded.' : 'The model is not in memory.'}{' '}
          Requests for the model are refused.
        </Notice>
      )}
      {model.state === 'idle' && <Notice>The model is not in memory. The next request loads it.</Notice>}
      {controls && (model.state === 'unloaded' || model.state === 'down') && (
        <LoadModel model={model} models={models} />
      )}
    </div>
  );
}

function CancelDownload({ id }: { id: string }) {
  return (
    <Button
      size="small"
      icon={<X className="size-3.5" aria-hidden="true" />}
      aria-label={`Cancel download of ${id}`}
      onClick={() => act('unloadModel', { body: { model: id } }, { done: `Download of ${id} canceled` })}
    >
      Cancel download
    </Button>
  );
}

function LoadModel({ model, models }: { model: Model; models: readonly Model[] }) {
  const { busy, error, submit } = useSubmit();
  const { id, state, downloaded } = model;
  const verb = downloaded === false ? 'Resume download' : state === 'down' ? 'Try again' : 'Load';
  const Icon = downloaded === false ? Download : RotateCw;
  return (
    <>
      <Button
        size="small"
        icon={<Icon className="size-3.5" aria-hidden="true" />}
        aria-label={`${verb}: ${id}`}
        busy={busy}
        onClick={() => void submit(() => act('loadModel', { body: { model: id } }))}
      >
        {verb}
      </Button>
      <Refusal error={error} models={models} />
    </>
  );
}
