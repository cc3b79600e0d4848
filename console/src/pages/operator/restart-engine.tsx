import { useAction } from '../../api/queries.ts';
import { Confirm } from '../../components/confirm.tsx';
import { counted } from '../../format/number.ts';
import type { Engine } from './engine-columns.tsx';

interface RestartEngineProps {
  engine: Engine;
  open: boolean;
  onClose: () => void;
}

/** Asks whether to restart an engine process, and restarts it. */
export function RestartEngine({ engine, open, onClose }: RestartEngineProps) {
  const { model, name, in_flight: running } = engine;
  const restart = useAction('restartEngine', {
    changes: ['listEngines'],
    done: `Engine of ${model} is restarting`,
  });
  return (
    <Confirm
      open={open}
      onClose={onClose}
      title={`Restart the engine of ${model}?`}
      action="Restart engine"
      busy={restart.isPending}
      onConfirm={() => restart.mutate({ body: { model, name } }, { onSuccess: onClose })}
    >
      <p>
        {running === 0
          ? 'No requests are running on it now.'
          : `${counted(running, 'running request')} ${running === 1 ? 'has' : 'have'} 10 seconds to finish. Unfinished responses are then continued if possible; otherwise, they fail.`}
      </p>
      <p>
        Until the engine is ready again, new requests go to other replicas of the model, or are refused if it
        has none.
      </p>
    </Confirm>
  );
}
