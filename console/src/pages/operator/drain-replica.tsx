import { useAction } from '../../api/queries.ts';
import { Confirm } from '../../components/confirm.tsx';
import { whole } from '../../format/number.ts';
import type { Engine } from './engine-columns.tsx';

interface DrainReplicaProps {
  engine: Engine;
  open: boolean;
  onClose: () => void;
}

/** Asks whether to drain a replica, and drains it. */
export function DrainReplica({ engine, open, onClose }: DrainReplicaProps) {
  const { model, name, in_flight: running } = engine;
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
        It gets no new requests from any instance until you resume it, even after a restart.{' '}
        {running === 0
          ? 'No requests are running on it now.'
          : `${whole(running)} running ${running === 1 ? 'request finishes' : 'requests finish'} first.`}
      </p>
      <p>If all replicas of a model are drained, its requests are refused with 503.</p>
    </Confirm>
  );
}
