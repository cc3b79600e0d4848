import { useState, type ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { Notice } from '../../components/states.tsx';
import { Progress } from '../../components/progress.tsx';
import { bytes, percent } from '../../format/number.ts';
import { duration, wait } from '../../format/time.ts';
import { TextLink } from '../../components/link.tsx';
import { useSession } from '../../state/session.tsx';
import { rateOf, withSample, type Sample } from './rate.ts';

type Model = ItemOf<'listServedModels'>;

interface ModelProgressProps {
  model: Model;
  atMs: number;
  /** A button below the progress of a download. */
  action?: ReactNode;
}

/** Progress of a model that is not ready, or the reason why it is down. `atMs`: time of the data, Unix milliseconds. */
export function ModelProgress({ model, atMs, action }: ModelProgressProps) {
  switch (model.state) {
    case 'downloading':
      return (
        <Download bytes={model.received_bytes ?? 0} atMs={atMs} total={model.total_bytes} action={action} />
      );
    case 'loading':
      if (model.reason !== null) {
        return <Notice title="Waiting for memory">{sentenceOf(model.reason)}</Notice>;
      }
      return (
        <Progress
          label="Loading into memory"
          fraction={model.fraction}
          text={model.fraction === null ? '' : percent(Math.floor(model.fraction * 100) / 100)}
        />
      );
    case 'down':
      return <Down model={model} />;
    case 'ready':
    case 'unloaded':
    case 'idle':
      return null;
  }
}

/** Returns a reason of the service, such as "waiting for `a` to exit", as a sentence. */
const sentenceOf = (reason: string): string =>
  `${reason.slice(0, 1).toUpperCase()}${reason.slice(1).replaceAll('`', '')}.`;

/** Below this rate, in bytes per second, no remaining time is shown. */
const STALLED = 1000;

function Download({
  bytes: received,
  atMs,
  total,
  action,
}: Sample & { total: number | null; action: ReactNode }) {
  const [samples, setSamples] = useState<readonly Sample[]>([]);
  if (samples.at(-1)?.atMs !== atMs) setSamples(withSample(samples, { bytes: received, atMs }));
  const rate = rateOf(samples);
  const stalled = rate !== null && rate < STALLED;
  const left = rate === null || stalled || total === null ? null : (total - received) / rate;
  return (
    <>
      <Progress
        label="Downloading"
        fraction={total === null ? null : received / total}
        text={total === null ? bytes(received) : `${bytes(received)} of ${bytes(total)}`}
      />
      <div className="mt-1.5 flex min-h-4 items-center justify-between gap-3 text-2xs text-ink-3 tabular-nums">
        <p className="flex flex-wrap gap-x-3">
          <span>
            {rate !== null && (stalled ? 'Stalled: less than 1 kB/s' : `${bytes(Math.round(rate))}/s`)}
          </span>
          <span>{left !== null && `${duration(left * 1000)} left`}</span>
        </p>
        {action}
      </div>
    </>
  );
}

function Down({ model: { reason, retry_in_ms: retry } }: { model: Model }) {
  const { user } = useSession();
  return (
    <Notice tone="bad">
      <p className="break-words first-letter:uppercase">{reason ?? 'Not responding'}</p>
      <p className="mt-1 text-xs">
        {retry !== null && `Retrying ${retry < 1000 ? 'now' : `in ${wait(retry)}`}. `}
        {user.operator && <TextLink to="/operator/engines">View replicas</TextLink>}
      </p>
    </Notice>
  );
}
