import { CircleSlash, Play, RotateCw } from 'lucide-react';
import type { ReactNode } from 'react';
import { act } from '../../api/act.ts';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { confirm } from '../../components/confirm.tsx';
import { DetailList, Mono } from '../../components/detail-list.tsx';
import { EngineOutput } from '../../components/engine-output.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { TextLink } from '../../components/link.tsx';
import { Meter } from '../../components/meter.tsx';
import { LoadProgress, StateBadge } from '../../components/state-badge.tsx';
import { Notice } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { bytes, counted, oneDecimal, percent, whole } from '../../format/number.ts';
import { duration, wait } from '../../format/time.ts';

export type Replica = ItemOf<'listEngines'>;

/** Formats a value; null, which means that the engine does not report it, becomes a dash. */
export function orUnknown<Value>(value: Value | null, write: (value: Value) => ReactNode): ReactNode {
  return value === null ? <span className="text-ink-3">—</span> : write(value);
}

/** Returns the share of prompt tokens found in the prefix cache, 0 to 1; null: not reported, or no prompt yet. */
export function cacheShare({ prompt_tokens: prompt, cached_tokens: cached }: Replica): number | null {
  return prompt === null || cached === null || prompt === 0 ? null : cached / prompt;
}

/** Returns the time since the replica became ready, in milliseconds; null: not reported. */
export function uptimeMs({ started_at: startedAt }: Replica): number | null {
  return startedAt === null ? null : Math.max(0, Date.now() - Date.parse(startedAt));
}

export const locationOf = ({ model, name }: Replica): string =>
  name === `embedded:${model}`
    ? 'Embedded (this machine)'
    : name === `command:${model}`
      ? 'Program (this machine)'
      : name;

/** The details of one replica; null: closed. */
export function ReplicaDialog({ replica, onClose }: { replica: Replica | null; onClose: () => void }) {
  return (
    <Dialog
      side
      open={replica !== null}
      onClose={onClose}
      title={replica?.model ?? ''}
      hint={replica ? locationOf(replica) : undefined}
      actions={
        replica && (
          <>
            <ButtonLink to={`/requests?model=${encodeURIComponent(replica.model)}`}>
              View requests of this model
            </ButtonLink>
            {replica.restartable && (
              <Button
                icon={<RotateCw />}
                disabled={['downloading', 'unloaded', 'idle'].includes(replica.state)}
                onClick={() => restartEngine(replica)}
              >
                Restart
              </Button>
            )}
            {replica.drained ? (
              <Button
                icon={<Play />}
                onClick={() =>
                  act(
                    'resumeReplica',
                    { body: { model: replica.model, name: replica.name } },
                    { done: 'The replica gets requests again' },
                  )
                }
              >
                Resume
              </Button>
            ) : (
              <Button icon={<CircleSlash />} onClick={() => drainReplica(replica)}>
                Drain
              </Button>
            )}
          </>
        )
      }
    >
      {replica && <Details replica={replica} />}
    </Dialog>
  );
}

function Details({ replica }: { replica: Replica }) {
  const { slots, slots_in_use: used } = replica;
  return (
    <div className="space-y-5">
      <Readiness replica={replica} />
      {slots !== null && used !== null && (
        <Meter label="Slots in use" used={used} bound={slots} text={`${used} of ${slots}`} />
      )}
      <DetailList
        details={[
          { label: 'State', value: <StateBadge status={replica} /> },
          { label: 'In-flight requests (this instance)', value: whole(replica.in_flight) },
          { label: 'Slots', value: orUnknown(slots, whole) },
          { label: 'Slots in use', value: orUnknown(used, whole) },
          { label: 'Queue', value: orUnknown(replica.queued, whole) },
          { label: 'Prompts in progress', value: orUnknown(replica.prefill, prefillText) },
          { label: 'KV cache in use', value: orUnknown(replica.cache_usage, percent) },
          {
            label: 'Throughput',
            value: orUnknown(replica.tokens_per_second, (speed) => `${oneDecimal(speed)} tokens/s`),
          },
          { label: 'Prompt tokens since start', value: orUnknown(replica.prompt_tokens, whole) },
          { label: 'Cached prompt tokens since start', value: orUnknown(replica.cached_tokens, whole) },
          { label: 'Cache hit rate', value: orUnknown(cacheShare(replica), percent) },
          { label: 'Completion tokens since start', value: orUnknown(replica.completion_tokens, whole) },
          { label: 'Draft tokens since start', value: orUnknown(replica.draft_tokens, whole) },
          {
            label: 'Accepted draft tokens since start',
            value: orUnknown(replica.accepted_draft_tokens, whole),
          },
          { label: 'Process memory', value: orUnknown(replica.memory_bytes, bytes) },
          {
            label: 'Conversations without a slot',
            value: orUnknown(
              replica.conversations,
              ({ entries, bytes: size }) => `${whole(entries)} (${bytes(size)})`,
            ),
          },
          {
            label: 'Conversations loaded since start',
            value: orUnknown(replica.conversations, loadsText),
          },
          { label: 'Restarts', value: orUnknown(replica.restarts, whole) },
          { label: 'Ready since', value: <Time at={replica.started_at} never="—" /> },
          { label: 'Uptime', value: orUnknown(uptimeMs(replica), duration) },
          { label: 'Backend', value: orUnknown(replica.backend, String) },
          { label: 'Dialect', value: replica.dialect },
          { label: 'Name', value: <Mono>{replica.name}</Mono> },
        ]}
      />
      <EngineOutput replica={replica} />
    </div>
  );
}

function prefillText(prefill: NonNullable<Replica['prefill']>): string {
  const { prompt_tokens: all, done_tokens: done, left_ms: leftMs } = prefill;
  return `${whole(done)} of ${whole(all)} tokens${leftMs === null ? '' : `, ${wait(leftMs)} left`}`;
}

function loadsText({ loads, load_ms: ms }: NonNullable<Replica['conversations']>): string {
  return loads === 0 ? '0' : `${whole(loads)} (${duration(ms / loads)} each)`;
}

function Readiness({ replica }: { replica: Replica }) {
  const { state, reason, retry_in_ms: retry } = replica;
  switch (state) {
    case 'ready':
    case 'unloaded':
      return null;
    case 'idle':
      return <Notice title="The model is not in memory">The next request loads it.</Notice>;
    case 'drained':
      return (
        <Notice title="No new requests are sent to this replica">
          {replica.in_flight === 0
            ? 'No requests are running on it.'
            : `${counted(replica.in_flight, 'request')} of this instance ${replica.in_flight === 1 ? 'is' : 'are'} still running on it.`}
        </Notice>
      );
    case 'loading':
    case 'downloading':
      return <LoadProgress status={replica} />;
    case 'paused':
      return (
        <Notice tone="warn" title="Paused after failures">
          <p className="break-words first-letter:uppercase">{reason}</p>
          <p className="mt-1">
            {retry === null || retry <= 0
              ? 'The next request checks whether the replica has recovered.'
              : `In ${wait(retry)}, one request checks whether the replica has recovered.`}
          </p>
        </Notice>
      );
    case 'down':
      return (
        <Notice tone="bad" title="Replica is down">
          <p className="break-words first-letter:uppercase">
            {reason ?? 'Reason unknown. Check the service log.'}
          </p>
          <p className="mt-1">
            {retry === null ? 'There are no automatic retries.' : `Retrying in ${wait(Math.max(0, retry))}.`}{' '}
            See <TextLink to="/docs/guide/troubleshooting">Troubleshooting</TextLink>.
          </p>
        </Notice>
      );
  }
}

function drainReplica(replica: Replica): void {
  const { model, name } = replica;
  void confirm({
    title: `Drain this replica of ${model}?`,
    action: 'Drain replica',
    children: <DrainConsequences replica={replica} />,
    run: () => act('drainReplica', { body: { model, name } }, { done: `${name} gets no new requests` }),
  });
}

function DrainConsequences({ replica: { model, name, in_flight: running } }: { replica: Replica }) {
  const replicas = useRead('listEngines', undefined);
  const others = replicas.data?.data.filter((other) => other.model === model && other.name !== name);
  const isLast = others?.every(({ drained }) => drained) ?? false;
  return (
    <>
      <p>
        It gets no new requests from any instance, even after a restart, until you resume it.{' '}
        {running === 0
          ? 'No requests are running on it now.'
          : `${counted(running, 'running request')} can still finish.`}
      </p>
      {isLast && (
        <Notice tone="warn">
          This is the only replica of the model that gets requests. Once it is drained, requests for the model
          are refused with 503 until you resume a replica.
        </Notice>
      )}
    </>
  );
}

function restartEngine({ model, name, in_flight: running }: Replica): void {
  void confirm({
    title: `Restart the engine of ${model}?`,
    action: 'Restart engine',
    children: (
      <>
        <p>
          {running === 0
            ? 'No requests are running on it now.'
            : `${counted(running, 'running request')} ${running === 1 ? 'has' : 'have'} 10 seconds to finish. Unfinished responses are then continued if possible; otherwise, they fail.`}
        </p>
        <p>
          Until the engine is ready again, new requests go to other replicas of the model, or are refused if
          it has none.
        </p>
      </>
    ),
    run: () => act('restartEngine', { body: { model, name } }, { done: `Engine of ${model} is restarting` }),
  });
}
