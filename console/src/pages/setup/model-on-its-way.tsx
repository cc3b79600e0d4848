import type { Element } from '../../api/client.ts';
import { Progress } from '../../components/progress.tsx';
import { Notice } from '../../components/states.tsx';
import { bytes, percent } from '../../format/number.ts';

/** A model that cannot answer yet: how far it is, or what is wrong. */
export function ModelOnItsWay({ model }: { model: Element<'listServedModels'> }) {
  if (model.state === 'down') {
    const wait = model.retry_in_ms;
    return (
      <Notice tone="warn" title={`${model.id} is down`}>
        {model.reason ?? 'The log of the service says why.'}
        {wait !== null && ` It is tried again in ${Math.ceil(wait / 1000)} s.`}
      </Notice>
    );
  }
  const isDownload = model.state === 'downloading';
  return (
    <>
      <p className="mb-3 text-sm break-words">
        {model.id} is {isDownload ? 'on its way. The file is kept.' : 'nearly there.'}
      </p>
      <Progress
        label={isDownload ? 'Downloading' : 'Loading'}
        fraction={model.fraction}
        text={progressOf(model)}
      />
    </>
  );
}

function progressOf({ fraction, received_bytes: received, total_bytes: total }: Element<'listServedModels'>) {
  if (received !== null && total !== null) return `${bytes(received)} of ${bytes(total)}`;
  if (received !== null) return bytes(received);
  return fraction === null ? '' : percent(fraction);
}
