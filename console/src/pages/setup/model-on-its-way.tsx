import type { Element } from '../../api/client.ts';
import { Progress } from '../../components/progress.tsx';
import { Notice } from '../../components/states.tsx';
import { bytes, percent } from '../../format/number.ts';
import { duration } from '../../format/time.ts';

/** A model that cannot answer yet: how far it is, or what is wrong. */
export function ModelOnItsWay({ model }: { model: Element<'listServedModels'> }) {
  if (model.state === 'down') {
    const again = model.retry_in_ms === null ? '' : ` It is tried again in ${duration(model.retry_in_ms)}.`;
    return (
      <Notice tone="warn" title={`${model.id} is down`}>
        {model.reason ?? 'The log of the service says why.'}
        {again}
      </Notice>
    );
  }
  const isDownload = model.state === 'downloading';
  return (
    <div className="rounded-lg bg-sunken p-4">
      <Progress
        label={`${model.id} is ${isDownload ? 'being downloaded' : 'loading'}`}
        fraction={model.fraction}
        text={progressOf(model)}
      />
      <p className="mt-2 text-xs text-ink-3">
        {isDownload ? 'Once only: the file is kept.' : 'The call can be sent as soon as it is there.'}
      </p>
    </div>
  );
}

function progressOf({ fraction, received_bytes: received, total_bytes: total }: Element<'listServedModels'>) {
  if (received !== null && total !== null) return `${bytes(received)} of ${bytes(total)}`;
  if (received !== null) return bytes(received);
  return fraction === null ? '' : percent(fraction);
}
