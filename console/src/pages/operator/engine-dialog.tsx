import { ButtonLink } from '../../components/button.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Facts } from '../../components/facts.tsx';
import { Meter } from '../../components/meter.tsx';
import { Progress } from '../../components/progress.tsx';
import { Notice } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { bytes, oneDigit, percent, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import { cacheShare, placeOf, told, uptimeMs, type Engine } from './engine-columns.tsx';
import { EngineStatus } from '../../components/engine-status.tsx';
import { NOT_TOLD } from './words.ts';

/** All that is known of one replica; null: none is looked at. */
export function EngineDialog({ engine, onClose }: { engine: Engine | null; onClose: () => void }) {
  return (
    <Dialog
      side
      open={engine !== null}
      onClose={onClose}
      title={engine?.model ?? ''}
      hint={engine ? placeOf(engine) : undefined}
      actions={
        engine && (
          <ButtonLink to={`/requests?model=${encodeURIComponent(engine.model)}`}>
            Requests of this model
          </ButtonLink>
        )
      }
    >
      {engine && <Details engine={engine} />}
    </Dialog>
  );
}

function Details({ engine }: { engine: Engine }) {
  const { slots, slots_in_use: used } = engine;
  return (
    <div className="space-y-5">
      <OnItsWay engine={engine} />
      {slots !== null && used !== null && (
        <Meter label="Slots in use" used={used} bound={slots} text={`${used} of ${slots}`} />
      )}
      <Facts
        facts={[
          { label: 'State', value: <EngineStatus engine={engine} /> },
          { label: 'Requests from this copy', value: whole(engine.in_flight) },
          { label: 'Slots', value: told(slots, whole) },
          { label: 'Slots in use', value: told(used, whole) },
          { label: 'Waiting in it for a slot', value: told(engine.queued, whole) },
          {
            label: 'Generates now',
            value: told(engine.tokens_per_second, (speed) => `${oneDigit(speed)} tokens/s`),
          },
          { label: 'Prompt tokens since its start', value: told(engine.prompt_tokens, whole) },
          { label: 'Of them in the prefix cache', value: told(engine.cached_tokens, whole) },
          { label: 'Cache hits', value: told(cacheShare(engine), percent) },
          { label: 'Completion tokens since its start', value: told(engine.completion_tokens, whole) },
          { label: 'Memory of its process', value: told(engine.memory_bytes, bytes) },
          { label: 'Restarts', value: told(engine.restarts, whole) },
          { label: 'Ready since', value: <Time at={engine.started_at} never={NOT_TOLD} /> },
          { label: 'Uptime', value: told(uptimeMs(engine), duration) },
          { label: 'Backend', value: told(engine.backend, String) },
          { label: 'Dialect', value: engine.dialect },
          { label: 'Name', value: <span className="font-mono text-xs break-all">{engine.name}</span> },
        ]}
      />
    </div>
  );
}

/** What it does before it can generate, and what keeps it from that. */
function OnItsWay({ engine }: { engine: Engine }) {
  const {
    state,
    fraction,
    received_bytes: received,
    total_bytes: total,
    reason,
    retry_in_ms: retry,
  } = engine;
  switch (state) {
    case 'ready':
      return null;
    case 'loading':
      return (
        <Progress
          label="Loading the model"
          fraction={fraction}
          text={fraction === null ? 'under way' : percent(fraction)}
        />
      );
    case 'downloading':
      return (
        <Progress
          label="Downloading the model"
          fraction={fraction}
          text={
            received === null
              ? 'under way'
              : total === null
                ? bytes(received)
                : `${bytes(received)} of ${bytes(total)}`
          }
        />
      );
    case 'paused':
      return (
        <Notice tone="warn" title="Paused after failures">
          <p className="break-words">{reason}</p>
          <p className="mt-1">
            {retry === null || retry <= 0
              ? 'The next request tests whether it has recovered.'
              : `One request tests in ${duration(retry)} whether it has recovered.`}
          </p>
        </Notice>
      );
    case 'down':
      return (
        <Notice tone="bad" title="It is down">
          <p className="break-words">{reason ?? 'No reason is known; the log may have one.'}</p>
          <p className="mt-1">
            {retry === null
              ? 'It is not tried again by itself.'
              : `It is tried again in ${duration(Math.max(0, retry))}.`}{' '}
            See docs/troubleshooting.md.
          </p>
        </Notice>
      );
  }
}
