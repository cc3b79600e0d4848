import { useAction, useRead } from '../../api/queries.ts';
import { Confirm } from '../../components/confirm.tsx';
import { Notice } from '../../components/states.tsx';
import { counted } from '../../format/number.ts';
import type { Engine } from './engine-columns.tsx';

interface DrainReplicaProps {
  engine: Engine;
  open: boolean;
  onClose: () => void;
}

/** Asks whether to drain a replica, and drains it. */
export function DrainReplica({ engine, open, onClose }: DrainReplicaProps) {
  const { model, name, in_flight: running } = engine;
  const engines = useRead('listEngines', undefined, { enabled: open });
  const others = engines.data?.data.filter((other) => other.model === model && other.name !== name);
  const isLast = others?.every(({ drained }) => drained) ?? false;
  const drain = useAction('drainReplica', {
    changes: ['listEngines', 'listServedModels'],
    done: `${name} gets no new requests`,
  });
  return (
    <Confirm
      open={open}
      onClose={onClose}
      title={`Drain this replica of ${model}?`}
      action="Drain replica"
      busy={drain.isPending}
      onConfirm={() => drain.mutate({ body: { model, name } }, { onSuccess: onClose })}
    >
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
    </Confirm>
  );
}
