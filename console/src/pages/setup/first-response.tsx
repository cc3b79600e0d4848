import type { ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Progress } from '../../components/progress.tsx';
import { Notice, Skeleton } from '../../components/states.tsx';
import { money } from '../../format/money.ts';
import { bytes, oneDecimal, percent, whole } from '../../format/number.ts';
import { duration, wait } from '../../format/time.ts';
import type { FirstCall } from './first-call.ts';

/** The response as it arrives, with its timing, tokens and cost. */
export function FirstResponse({ call, model }: { call: FirstCall; model: ItemOf<'listServedModels'> }) {
  const { state, text, error } = call;
  const isRunning = state === 'running';
  return (
    <section aria-label="Response" className="rounded-lg border border-line">
      <div className="min-h-24 p-4 text-sm">
        {state === 'idle' && model.state !== 'ready' && <ModelNotReady model={model} />}
        {state === 'idle' && model.state === 'ready' && (
          <p className="text-ink-3">The model is ready. The response will appear here.</p>
        )}
        {isRunning && text === '' && <p className="text-ink-3">Waiting for the first token</p>}
        {/* Announced when complete, not token by token. */}
        <p aria-live="polite" aria-busy={isRunning} className="break-words whitespace-pre-wrap">
          {text}
          {isRunning && text !== '' && (
            <span className="ml-0.5 inline-block h-4 w-1.5 animate-pulse-soft bg-accent align-text-bottom" />
          )}
        </p>
        {error !== null && (
          <div className={text === '' ? '' : 'mt-4'}>
            <Notice tone="bad">{error.message}</Notice>
          </div>
        )}
      </div>
      <Figures call={call} />
    </section>
  );
}

/** Progress of a model that is not ready, or the reason why it is down. */
function ModelNotReady({ model }: { model: ItemOf<'listServedModels'> }) {
  if (model.state === 'down') {
    const retry = model.retry_in_ms;
    return (
      <Notice tone="warn" title={`${model.id} is down`}>
        {model.reason === null ? 'Check the service log for the reason.' : `${model.reason}.`}
        {retry !== null && ` Retrying in ${wait(retry)}.`}
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

/** Shown for unknown values. */
const NONE = '—';

function Figures({ call: { state, ttftMs, totalMs, usage, requestId } }: { call: FirstCall }) {
  const hasEnded = state === 'done';
  const receipt = useRead(
    'getReceipt',
    { params: { id: requestId ?? '' } },
    { enabled: hasEnded && requestId !== null },
  );
  const decodeMs = totalMs !== null && ttftMs !== null ? totalMs - ttftMs : 0;
  const speed = usage !== null && decodeMs > 0 ? (usage.completionTokens - 1) / (decodeMs / 1000) : null;
  return (
    <dl className="grid grid-cols-2 gap-x-4 gap-y-3 border-t border-line px-4 py-3 sm:grid-cols-4">
      <Figure label="Time to first token">{ttftMs === null ? NONE : duration(ttftMs)}</Figure>
      <Figure label="Throughput">{speed === null ? NONE : `${oneDecimal(speed)} tokens/s`}</Figure>
      <Figure label="Tokens">
        {usage === null ? NONE : `${whole(usage.promptTokens)} in, ${whole(usage.completionTokens)} out`}
      </Figure>
      <Figure label="Cost">
        {receipt.data !== undefined ? (
          money(receipt.data.request.cost_usd)
        ) : receipt.isFetching ? (
          <Skeleton className="h-4 w-16" />
        ) : (
          NONE
        )}
      </Figure>
    </dl>
  );
}

function Figure({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className="min-w-0">
      <dt className="text-2xs text-ink-3">{label}</dt>
      <dd className="text-sm font-medium tabular-nums">{children}</dd>
    </div>
  );
}
