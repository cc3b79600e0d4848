import type { ItemOf } from '../api/client.ts';
import { Status, type Tone } from './badge.tsx';
import { useConnection } from '../state/connection.tsx';
import { percent } from '../format/number.ts';

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
