import { Download, RotateCw, X } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { act } from '../../api/act.ts';
import type { ApiError, ItemOf } from '../../api/client.ts';
import { Button } from '../../components/button.tsx';
import { FormError, useSubmit } from '../../components/form.tsx';
import { TextLink } from '../../components/link.tsx';
import { LoadProgress } from '../../components/state-badge.tsx';
import { Notice } from '../../components/states.tsx';
import { bytes, counted } from '../../format/number.ts';
import { duration, wait } from '../../format/time.ts';
import { useSession } from '../../state/session.tsx';
import { rateOf, withSample, type Sample } from './rate.ts';

type Model = ItemOf<'listServedModels'>;

interface ModelActivityProps {
  model: Model;
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
      <div className="empty:hidden">
        <LoadProgress status={model} />
        {model.state === 'downloading' && (
          <Rate bytes={model.received_bytes ?? 0} atMs={atMs} total={model.total_bytes}>
            {controls && <CancelDownload id={model.id} />}
          </Rate>
        )}
      </div>
      {model.state === 'down' && <Down model={model} />}
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

/** Below this rate, in bytes per second, no remaining time is shown. */
const STALLED = 1000;

function Rate({
  bytes: received,
  atMs,
  total,
  children,
}: Sample & { total: number | null; children: ReactNode }) {
  const [samples, setSamples] = useState<readonly Sample[]>([]);
  if (samples.at(-1)?.atMs !== atMs) setSamples(withSample(samples, { bytes: received, atMs }));
  const rate = rateOf(samples);
  const stalled = rate !== null && rate < STALLED;
  const left = rate === null || stalled || total === null ? null : (total - received) / rate;
  return (
    <div className="mt-1.5 flex min-h-4 items-center justify-between gap-3 text-2xs text-ink-3 tabular-nums">
      <p className="flex flex-wrap gap-x-3">
        <span>
          {rate !== null && (stalled ? 'Stalled: less than 1 kB/s' : `${bytes(Math.round(rate))}/s`)}
        </span>
        <span>{left !== null && `${duration(left * 1000)} left`}</span>
      </p>
      {children}
    </div>
  );
}

function Down({ model: { reason, retry_in_ms: retry } }: { model: Model }) {
  const { user } = useSession();
  return (
    <Notice tone="bad">
      <p className="break-words first-letter:uppercase">{reason ?? 'Not responding'}</p>
      <p className="mt-1 text-xs">
        {retry !== null && `Retrying ${retry < 1000 ? 'now' : `in ${wait(retry)}`}. `}
        {user.operator && <TextLink to="/operator/operations">View replicas</TextLink>}
      </p>
    </Notice>
  );
}

function CancelDownload({ id }: { id: string }) {
  return (
    <Button
      size="small"
      icon={<X />}
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
        icon={<Icon />}
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
