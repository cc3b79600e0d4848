import type { ItemOf } from '../api/client.ts';
import { bytes, percent } from '../format/number.ts';
import { useConnection } from '../state/connection.tsx';
import { Status, type Tone } from './badge.tsx';
import { Progress } from './progress.tsx';
import { Notice } from './states.tsx';

type State = Pick<ItemOf<'listEngines'>, 'state' | 'fraction' | 'in_flight'>;

const STATES: Readonly<Record<State['state'], { word: string; tone: Tone }>> = {
  ready: { word: 'Ready', tone: 'good' },
  loading: { word: 'Loading', tone: 'accent' },
  downloading: { word: 'Downloading', tone: 'accent' },
  unloaded: { word: 'Not loaded', tone: 'neutral' },
  idle: { word: 'Idle', tone: 'neutral' },
  paused: { word: 'Paused', tone: 'warn' },
  drained: { word: 'Drained', tone: 'neutral' },
  down: { word: 'Down', tone: 'bad' },
};

/** The state of a replica or model, with the progress of loading or downloading. Unknown while data is outdated. */
export function StateBadge({ status: { state, fraction, in_flight: running } }: { status: State }) {
  if (useConnection() !== 'up') return <Status tone="neutral">Unknown</Status>;
  if (state === 'drained' && running > 0) {
    return (
      <Status tone="accent" live>
        Draining
      </Status>
    );
  }
  const { word, tone } = STATES[state];
  const underWay = state === 'loading' || state === 'downloading';
  return (
    <Status tone={tone} live={underWay}>
      {underWay && fraction !== null ? `${word} ${percent(Math.floor(fraction * 100) / 100)}` : word}
    </Status>
  );
}

type Detailed = State & Pick<ItemOf<'listEngines'>, 'reason' | 'received_bytes' | 'total_bytes'>;

/** The state of a replica or model in a table, with why it gets no requests, or how much of it is downloaded. */
export function StateCell({ status }: { status: Detailed }) {
  const { state, reason } = status;
  return (
    <>
      <StateBadge status={status} />
      {(state === 'down' || state === 'paused') && reason !== null && (
        <span className="block max-w-40 truncate text-xs text-ink-3 first-letter:uppercase" title={reason}>
          {reason}
        </span>
      )}
      {state === 'downloading' && <span className="block text-xs text-ink-3">{progressText(status)}</span>}
    </>
  );
}

/** How far a replica or model is with loading or downloading, or what it waits for; nothing in other states. */
export function LoadProgress({ status }: { status: Detailed }) {
  const { state, reason, fraction } = status;
  if (state !== 'loading' && state !== 'downloading') return null;
  if (state === 'loading' && reason !== null) {
    return (
      <Notice title="Waiting for memory">
        <p className="break-words first-letter:uppercase">{reason.replaceAll('`', '')}.</p>
      </Notice>
    );
  }
  return (
    <Progress
      label={state === 'loading' ? 'Loading into memory' : 'Downloading'}
      fraction={fraction}
      text={progressText(status)}
    />
  );
}

function progressText({ fraction, received_bytes: received, total_bytes: total }: Detailed): string {
  if (received !== null) return total === null ? bytes(received) : `${bytes(received)} of ${bytes(total)}`;
  return fraction === null ? '' : percent(Math.floor(fraction * 100) / 100);
}
