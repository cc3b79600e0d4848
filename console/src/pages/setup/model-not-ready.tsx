import type { ItemOf } from '../../api/client.ts';
import { Progress } from '../../components/progress.tsx';
import { Notice } from '../../components/states.tsx';
import { bytes, percent } from '../../format/number.ts';

/** Progress of a model that is not ready, or the reason why it is down. */
export function ModelNotReady({ model }: { model: ItemOf<'listServedModels'> }) {
  if (model.state === 'down') {
    const wait = model.retry_in_ms;
    return (
      <Notice tone="warn" title={`${model.id} is down`}>
        {model.reason ?? 'Check the service log for the reason.'}
        {wait !== null && ` Retrying in ${Math.ceil(wait / 1000)} s.`}
      </Notice>
    );
  }
  const isDownload = model.state === 'downloading';
  return (
    <>
      <p className="mb-3 text-sm break-words">
        {isDownload
          ? `Downloading ${model.id}. This is only needed once.`
          : `Loading ${model.id} into memory.`}
      </p>
      <Progress
        label={isDownload ? 'Downloading' : 'Loading'}
        fraction={model.fraction}
        text={progressOf(model)}
      />
    </>
  );
}

function progressOf({ fraction, received_bytes: received, total_bytes: total }: ItemOf<'listServedModels'>) {
  if (received !== null && total !== null) return `${bytes(received)} of ${bytes(total)}`;
  if (received !== null) return bytes(received);
  return fraction === null ? '' : percent(fraction);
}
